"""``culm sds tail``: the messages of a channel in causal order, with their acknowledgement states."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, say
from culm_infra.cli.sds.channel import Channel, check_channel
from culm_infra.cli.sds.lines import Screen
from culm_topics.sds.events import SdsEventReader

_ALWAYS = frozenset({"lost"})


def _complete_start(incomplete: str) -> list[str]:
    return [word for word in ("beginning", "now") if word.startswith(incomplete)]


def tail(
    channel: Channel,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="beginning|now|NUMBER",
            help="Where to begin: at the channel's first message, with what comes now, or at an event's"
            " number. Now by default, with --no-follow the beginning.",
            autocompletion=_complete_start,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Follow new events, or end at the current one.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Every event: also what is missing, syncs and repairs.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="Of what is there, only the last so many messages."),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print a channel's messages in causal order, and changes of their states, until interrupted.

    Existing messages come in the order of the log, each with its present state; later events are printed as
    they happen. A message that belongs before others is marked (↑ inserted), as is a message that refers to
    lost messages (⚠ gap). States: · unacknowledged, ~ possibly acknowledged, ✓ acknowledged, ✗ given up;
    messages of participants that are not hosted here have no state.

    Example: `culm sds tail general --from beginning`, `culm sds tail general --no-follow --json`
    """
    check_channel(channel)
    if every and count is not None:
        raise typer.BadParameter("counts messages, and --all shows every event", param_hint="--count")
    start = _start_of(("now" if follow else "beginning") if since is None else since)
    if start is None and count is not None:
        raise typer.BadParameter("is about what is there: give --from, other than now", param_hint="--count")
    arguments: dict[str, Any] = {"start": "now"} if start is None else {"after": {channel: start}}
    screen = Screen(channel, None if every else _ALWAYS, results.json)
    with SdsEventReader(kafka.settings(), [channel], follow=follow, strict=True, **arguments) as events:
        if start is not None and not _take_former(events, screen):
            say("no such events in this channel yet: `culm sds status` lists the channels that there are")
        if start is not None and not every:
            messages = screen.view.messages()
            for message in messages[-count:] if count else messages:
                screen.message(message)
        if follow:
            for received in events:
                screen.event(received.event)
        results.passed_over(events.passed_over)


def _take_former(events: SdsEventReader, screen: Screen) -> bool:
    """Read the existing events, and print them if every event is shown. Returns whether there were any."""
    there_was = False
    while not (events.at_present or events.finished):
        received = events.poll(1.0)
        if received is None:
            continue
        there_was = True
        if screen.kinds is None:
            screen.event(received.event)
        else:
            screen.view.take(received.event)
    return there_was


def _start_of(text: str) -> int | None:
    """Return the number of the event before the first one to show; None: from now on."""
    if text == "now":
        return None
    if text == "beginning":
        return 0
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 64:
        return int(text) - 1
    raise typer.BadParameter(f"{text!r} is not beginning, now or a number from 1", param_hint="--from")
