"""``culm sds send``: send one message to a channel, and optionally wait until it is acknowledged."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.connector import address
from culm_infra.cli.kit import options
from culm_infra.cli.kit.options import optional_hex
from culm_infra.cli.kit.output import EXIT_DEGRADED, EXIT_FAILED, Results, counting, safe, say
from culm_infra.cli.kit.reaching import SILENT_S
from culm_infra.cli.sds.channel import Channel, check_channel
from culm_infra.cli.sds.participation import (
    ParticipantFlags,
    ParticipantIdentity,
    Participation,
    participating,
)
from culm_topics.sds.records import SdsEventRecord

if TYPE_CHECKING:
    from culm_connectors.transport import Address

_LEAVE_TIMEOUT_S = 2.0


def send(
    channel: Channel,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The content; - reads it from standard input.")],
    *,
    edge: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The connector to send it by: [quic://]HOST:PORT.")
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is acknowledged or given up.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Give up after so long in all.")
    ] = 60.0,
    full: Annotated[
        bool, typer.Option("--full", help="As a full participant with its state here, not a hosted one.")
    ] = False,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="To those who are there now; it is kept nowhere.")
    ] = False,
    flags: ParticipantFlags,
    expect: options.ExpectedPeer = None,
    results: Results,
) -> None:
    """Send one message; print its id.

    The message counts as sent when it is durable in the deployment (with `--full`: when the edge has it).
    With `--wait` the exit status is 0 once it is acknowledged, 1 if it was given up or refused, 3 if neither
    happened in time.

    Example: `culm sds send general "hello" --edge 127.0.0.1:4455 --wait`
    """
    check_channel(channel)
    if wait and ephemeral:
        raise typer.BadParameter("ephemeral messages are not acknowledged", param_hint="--wait")
    content = sys.stdin.buffer.read() if text == "-" else text.encode()
    target, expected = address(edge, "--edge"), optional_hex(expect, "--expect")
    identity = flags.identity(channel, hosted=not full)
    outcome = asyncio.run(
        _run(identity, target, expected, content, wait=wait, timeout_s=timeout_s, ephemeral=ephemeral)
    )
    if results.json or outcome["message_id"] is not None:
        row = {"channel": channel, "participant_id": identity.participant_id, **outcome}
        results.one(row, outcome["message_id"])
    state = outcome["state"]
    if state == "not_sent":
        why = f": {safe(outcome['problem'])}" if outcome["problem"] else ""
        say(f"no edge accepted it at {edge} within {timeout_s:g} s{why}")
        raise typer.Exit(EXIT_FAILED)
    if state == "gave_up":
        say("it was given up without an acknowledgement")
        raise typer.Exit(EXIT_FAILED)
    if wait and state != "acknowledged":
        say("it is not acknowledged yet; the participant continues to send it")
        raise typer.Exit(EXIT_DEGRADED)
    results.next(*(f"culm sds {verb} {shlex.quote(channel)}" for verb in ("tail", "status")))


async def _run(
    identity: ParticipantIdentity,
    target: Address,
    expected: bytes | None,
    content: bytes,
    *,
    wait: bool,
    timeout_s: float,
    ephemeral: bool,
) -> dict[str, Any]:
    from culm_connectors.sds.participants.client import FROM_NOW

    outcome: dict[str, Any] = {"message_id": None, "state": "not_sent", "problem": None}
    received_by: set[str] = set()

    with counting("connecting") as count:

        def show(event: SdsEventRecord) -> None:
            evidence = event.details.get("evidence")
            if event.message_id == outcome["message_id"] and isinstance(evidence, tuple):
                received_by.update(evidence)
                count(description=f"sent; possibly received by {len(received_by)}")

        async with participating(
            identity, target, expected, show, since=FROM_NOW, keep_place=False
        ) as participation:
            sending = asyncio.create_task(
                _send(participation, content, outcome, wait=wait, ephemeral=ephemeral)
            )
            ends = {sending, participation.dialling}
            done, _ = await asyncio.wait(
                ends, timeout=min(SILENT_S, timeout_s), return_when=asyncio.FIRST_COMPLETED
            )
            if not done and timeout_s > SILENT_S:
                say(f"{_waiting_for(outcome, target)}, at most {timeout_s:g} s (--timeout)")
                await asyncio.wait(ends, timeout=timeout_s - SILENT_S, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
            elif participation.dialling.done():
                sending.cancel()
                await participation.dialling
            sending.cancel()
            if outcome["state"] == "not_sent" and participation.problem is not None:
                outcome["problem"] = str(participation.problem)
            await _goodbye(participation)
    return outcome


def _waiting_for(outcome: dict[str, Any], target: Address) -> str:
    if outcome["message_id"] is None:
        return f"waiting for a connector at {safe(target[0])} port {target[1]}"
    return "sent; waiting until it is acknowledged or given up"


async def _send(
    participation: Participation, content: bytes, outcome: dict[str, Any], *, wait: bool, ephemeral: bool
) -> None:
    await participation.joined.wait()
    outcome["message_id"] = await participation.send(content, ephemeral=ephemeral)
    outcome["state"] = "sent"
    if wait:
        is_acknowledged = await participation.acknowledged(outcome["message_id"])
        outcome["state"] = "acknowledged" if is_acknowledged else "gave_up"


async def _goodbye(participation: Participation) -> None:
    from culm_connectors.transport import TransportError

    try:
        async with asyncio.timeout(_LEAVE_TIMEOUT_S):
            # After this, the edge has all earlier messages.
            await participation.leave()
    except (TimeoutError, TransportError):
        return
