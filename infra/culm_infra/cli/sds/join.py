"""``culm sds join``: take part in a channel from the terminal, to read and to send messages."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.connector import address
from culm_infra.cli.kit import options
from culm_infra.cli.kit.options import optional_hex
from culm_infra.cli.kit.output import Results, safe, say
from culm_infra.cli.kit.reaching import SILENT_S
from culm_infra.cli.kit.start_at import StartAt, StartNumber, StartTime, parse_start
from culm_infra.cli.sds.channel import Channel, check_channel
from culm_infra.cli.sds.lines import STATES, Screen
from culm_infra.cli.sds.participation import (
    ParticipantFlags,
    ParticipantIdentity,
    Participation,
    history,
    participating,
)
from culm_infra.cli.sds.tail import NUMBER
from culm_infra.patience import interrupted
from culm_models.errors import CulmError

if TYPE_CHECKING:
    from culm_connectors.sds.participants.client import EventPosition
    from culm_connectors.transport import Address
    from culm_topics.sds.records import SdsEventRecord

_WORTH_A_LINE = frozenset({"lost", "rejected", "clock_ahead"})
_MAX_LINES = 256
_MAX_TAIL = 1_000_000
_WATCH_S = 0.2
_HELP = "/status: counts of messages   /now TEXT: to the participants that are connected, not stored   /quit"


def join(
    context: typer.Context,
    channel: Channel,
    where: Annotated[str, typer.Argument(metavar="ADDRESS", help="A connector: [quic://]HOST:PORT.")],
    *,
    hosted: Annotated[
        bool, typer.Option("--hosted", help="As the client of a participant that the deployment keeps.")
    ] = False,
    flags: ParticipantFlags,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="beginning|now|NUMBER|TIME",
            help="Where to start, as for `culm sds tail`; by default where this client stopped. "
            "Goes with --hosted.",
            autocompletion=options.words("beginning", "now"),
        ),
    ] = None,
    tail: Annotated[
        int,
        typer.Option(
            "--tail", metavar="N", min=0, max=_MAX_TAIL, help="Begin with the last N earlier messages."
        ),
    ] = 20,
    expect: options.ExpectedPeer = None,
    results: Results,
) -> None:
    """Take part in a channel until interrupted: print its messages, send the lines that are typed.

    Messages come in causal order, each with its state: · unacknowledged, ~ possibly acknowledged, ✓
    acknowledged, ✗ given up. Without `--hosted` the state is kept below `--dir`: the participant resumes
    there the next time, also after a kill. Lines that begin with `/` are commands (`/help`).

    Example: `culm sds join general 127.0.0.1:4455 --participant alice`
    """
    check_channel(channel)
    if hosted:
        options.refuse(context, ["tail"], "the events of a hosted participant are in `culm sds tail`")
    if since is not None and not hosted:
        raise typer.BadParameter("a full participant remembers its position", param_hint="--from")
    start = None if since is None else parse_start(since, NUMBER)
    position = None if start is None else position_of(start)
    since_ms = start.time_ms if isinstance(start, StartTime) else 0
    target, expected = address(where, "ADDRESS"), optional_hex(expect, "--expect")
    identity = flags.identity(channel, hosted=hosted)
    asyncio.run(_run(identity, target, expected, position, since_ms, tail, json=results.json))


async def _run(
    identity: ParticipantIdentity,
    target: Address,
    expected: bytes | None,
    position: EventPosition | None,
    since_ms: int,
    tail: int,
    *,
    json: bool,
) -> None:
    # Programs also receive state changes of messages that an earlier process printed.
    screen = Screen(identity.channel_id, _WORTH_A_LINE | STATES if json else _WORTH_A_LINE, json)
    stop = interrupted()
    if not identity.hosted:
        for event in history(identity, tail):
            screen.event(event)

    def show(event: SdsEventRecord) -> None:
        if event.time_ms >= since_ms:
            screen.event(event)

    async with participating(identity, target, expected, show, since=position) as participation:
        say(f"you are {safe(identity.participant_id)}; lines that you type are sent, /help lists commands")
        connection_shown = asyncio.create_task(_show_connection(participation, target))
        typing = asyncio.create_task(_send_lines(participation, stop))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, participation.dialling}, return_when=asyncio.FIRST_COMPLETED)
        for task in (connection_shown, typing, stopped):
            task.cancel()
        if participation.dialling.done():
            await participation.dialling
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2):
                await participation.leave()


def position_of(start: StartAt) -> EventPosition:
    """Return the position of a client that starts there; at a time, all events are read.

    Raises `typer.BadParameter`.
    """
    from culm_connectors.sds.participants.client import FROM_NOW, FROM_THE_BEGINNING, EventPosition

    match start:
        case "now":
            return FROM_NOW
        case "beginning" | StartTime():
            return FROM_THE_BEGINNING
        case StartNumber(number=number) if number > 0:
            return EventPosition(number - 1, b"")
        case _:
            raise typer.BadParameter("the events of a channel have numbers from 1", param_hint="--from")


async def _show_connection(participation: Participation, target: Address) -> None:
    shown: str | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SILENT_S):
            await participation.joined.wait()
    if not participation.joined.is_set() and participation.problem is None:
        say(f"waiting for a connector at {safe(target[0])} port {target[1]}")
    while True:
        while not participation.joined.is_set():
            await asyncio.sleep(_WATCH_S)
            if participation.problem is not None and str(participation.problem) != shown:
                shown = str(participation.problem)
                say(f"not connected: {safe(shown)}; dialling again and again")
        shown = None
        say(f"joined at {safe(target[0])} port {target[1]}")
        while participation.joined.is_set():  # noqa: ASYNC110 - there is no event for its end
            await asyncio.sleep(_WATCH_S)


async def _send_lines(participation: Participation, stop: asyncio.Event) -> None:
    """Send the lines that are typed; after the end of the input, messages are still printed."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    capacity = threading.Semaphore(_MAX_LINES)
    loop = asyncio.get_running_loop()
    threading.Thread(target=read_lines, args=(lines, loop, capacity), daemon=True).start()
    while (line := await lines.get()) is not None:
        capacity.release()
        text = line.rstrip("\r\n")
        try:
            if text.startswith("/"):
                await _command(participation, text, stop)
            elif text:
                await participation.send(text.encode())
        except CulmError as error:
            say(f"not sent: {safe(error)} ({error.code})")


def read_lines(
    lines: asyncio.Queue[str | None], loop: asyncio.AbstractEventLoop, capacity: threading.Semaphore
) -> None:
    """Put the lines of standard input into a queue of the loop, then None; ends when the loop is closed.

    A line waits for `capacity`, which the reader of the queue releases.
    """
    # A closed loop raises RuntimeError, a closed standard input ValueError.
    with contextlib.suppress(RuntimeError, OSError, ValueError):
        for line in sys.stdin:
            capacity.acquire()
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)


async def _command(participation: Participation, text: str, stop: asyncio.Event) -> None:
    name, _, rest = text.partition(" ")
    if name == "/quit":
        stop.set()
    elif name == "/now" and rest:
        await participation.send(rest.encode(), ephemeral=True)
    elif name == "/status":
        figures = participation.status()
        if figures is None:
            say("the state of a hosted participant is in the deployment: `culm sds status`")
        else:
            say("   ".join(f"{label.replace('_', ' ')} {value}" for label, value in figures.items()))
    elif name.startswith("//"):
        await participation.send(text[1:].encode())
    else:
        say(_HELP)
