"""``culm sds tail``: the messages of a channel in causal order, with their acknowledgement states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from culm_infra.cli.kit.options import KafkaFlags, words
from culm_infra.cli.kit.output import Results, say
from culm_infra.cli.kit.start_at import StartAt, StartNumber, StartTime, parse_start
from culm_infra.cli.sds.channel import Channel, check_channel
from culm_infra.cli.sds.lines import Screen
from culm_topics.sds.events import SdsEventReader

_ALWAYS = frozenset({"lost"})
NUMBER = "an event's number"


def tail(
    channel: Channel,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="beginning|now|NUMBER|TIME",
            help="Where to start: beginning, now, an event's number, a time (2026-11-27T10:00, in UTC), or so"
            " long ago (10m, 2h, 3d). Now by default, with --no-follow the beginning.",
            autocompletion=words("beginning", "now"),
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Follow new events, or end at the current one.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Every event: also what is missing, syncs and repairs.")
    ] = False,
    last: Annotated[
        int | None,
        typer.Option("--tail", metavar="N", min=1, help="Begin with the last N existing messages."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N results.")
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print a channel's messages in causal order, and changes of their states, until interrupted.

    Existing messages come in the order of the log, each with its present state; later events are printed as
    they happen. A message that belongs before others is marked (↑ inserted), as is a message that refers to
    lost messages (⚠ gap). States: · unacknowledged, ~ possibly acknowledged, ✓ acknowledged, ✗ given up;
    messages of participants that are not hosted here have no state.

    Example: `culm sds tail general --tail 20`, `culm sds tail general --no-follow --json`
    """
    check_channel(channel)
    if every and last is not None:
        raise typer.BadParameter("counts messages, and --all shows every event", param_hint="--tail")
    start = parse_start(
        ("now" if follow and last is None else "beginning") if since is None else since, NUMBER
    )
    arguments = _reader_arguments(channel, start)
    if start == "now" and last is not None:
        raise typer.BadParameter("begins before now: give another --from, or none", param_hint="--tail")
    screen = Screen(channel, None if every else _ALWAYS, results.json, limit=count)
    with SdsEventReader(kafka.settings(), [channel], follow=follow, strict=True, **arguments) as events:
        since_ms = start.time_ms if isinstance(start, StartTime) else 0
        if start != "now" and not _take_former(events, screen, since_ms):
            say("no such events in this channel yet: `culm sds status` lists the channels that there are")
        if start != "now" and not every:
            messages = screen.view.messages()
            for message in messages[-last:] if last else messages:
                screen.message(message)
        if follow and not screen.is_full:
            for received in events:
                screen.event(received.event)
                if screen.is_full:
                    break
        results.passed_over(events.passed_over)


def _take_former(events: SdsEventReader, screen: Screen, since_ms: int) -> bool:
    """Read the existing events from a time on, and print them if every event is shown.

    Returns whether there were any.
    """
    there_was = False
    while not (events.at_present or events.finished or screen.is_full):
        received = events.poll(1.0)
        if received is None or received.event.time_ms < since_ms:
            continue
        there_was = True
        if screen.kinds is None:
            screen.event(received.event)
        else:
            screen.view.take(received.event)
    return there_was


def _reader_arguments(channel: str, start: StartAt) -> Mapping[str, Any]:
    """Return the arguments of the reader that starts there. Raises `typer.BadParameter`."""
    match start:
        case "now":
            return {"start": "now"}
        case "beginning":
            return {"after": {channel: 0}}
        case StartTime(time_ms=time_ms):
            return {"since_ms": time_ms}
        case StartNumber(number=number) if number > 0:
            return {"after": {channel: number - 1}}
        case _:
            raise typer.BadParameter("the events of a channel have numbers from 1", param_hint="--from")
