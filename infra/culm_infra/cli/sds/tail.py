"""``culm sds tail``: what is said in a channel, in causal order, and how far it is heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import emit_json, out, say, show_passed_over
from culm_infra.cli.sds.channel import Channel, check_channel

if TYPE_CHECKING:
    from culm_infra.cli.sds.view import ChannelView
    from culm_topics.sds.events import SdsEventReader
    from culm_topics.sds.records import SdsEventRecord

_ALWAYS = {"lost"}


def _complete_start(incomplete: str) -> list[str]:
    return [word for word in ("beginning", "now") if word.startswith(incomplete)]


@spread
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
        bool, typer.Option("--follow/--no-follow", help="Go on with what comes, or end at the present.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Every event: also what is missing, syncs and repairs.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="Of what is there, only the last so many messages."),
    ] = None,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """Print a channel's messages in causal order, and what becomes of them, until interrupted.

    What is already there comes in the order of the log, each message with its present state. What comes then
    is printed as it happens: a message that belongs before others is marked (↑ inserted), as is one that
    refers to messages which are lost (⚠ gap). States: · unacknowledged, ~ possibly acknowledged,
    ✓ acknowledged, ✗ given up; messages of participants that are not hosted here have none.

    Example: `culm sds tail general --from beginning`, `culm sds tail general --no-follow --json`
    """
    from culm_infra.cli.sds.view import ChannelView
    from culm_topics.sds.events import SdsEventReader

    check_channel(channel)
    if every and count is not None:
        raise typer.BadParameter("counts messages, and --all shows every event", param_hint="--count")
    start = _start_of(("now" if follow else "beginning") if since is None else since)
    if start is None and count is not None:
        raise typer.BadParameter("is about what is there: give --from, other than now", param_hint="--count")
    arguments: dict[str, Any] = {"start": "now"} if start is None else {"after": {channel: start}}
    shown = _Shown(channel, every=every, json=json)
    view = ChannelView()
    with SdsEventReader(kafka.settings(), [channel], follow=follow, strict=True, **arguments) as events:
        if start is not None and not _take_former(events, view, shown, every=every):
            say("no such events in this channel yet: `culm sds status` lists the channels that there are")
        if start is not None and not every:
            messages = view.messages()
            for message in messages[-count:] if count else messages:
                shown.message(message)
        if follow:
            for found in events:
                shown.event(view, found.event)
        show_passed_over(events.passed_over, json=json)


def _take_former(events: SdsEventReader, view: ChannelView, shown: _Shown, *, every: bool) -> bool:
    """Take in what is already there; with `every` it is printed as it happened. Whether there was any."""
    there_was = False
    while not (events.at_present or events.finished):
        found = events.poll(1.0)
        if found is None:
            continue
        there_was = True
        if every:
            shown.event(view, found.event)
        else:
            view.take(found.event)
    return there_was


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where lines go to."""

    channel: str
    every: bool
    json: bool

    def message(self, message: Any) -> None:
        from culm_infra.cli.sds.lines import message_json, message_line

        if self.json:
            emit_json(message_json(self.channel, message))
        else:
            out.print(message_line(message))

    def event(self, view: ChannelView, event: SdsEventRecord) -> None:
        from culm_infra.cli.sds.lines import event_json, event_line, state_line

        message = view.take(event)
        if message is not None and event.kind in ("sent", "delivered"):
            self.message(message)
        elif message is not None or self.every or event.kind in _ALWAYS:
            if self.json:
                emit_json(event_json(self.channel, event))
            elif message is not None:
                out.print(state_line(message, event.time_ms))
            else:
                out.print(event_line(event))


def _start_of(text: str) -> int | None:
    """The number of the event before the first one that is wanted; None: from now on."""
    if text == "now":
        return None
    if text == "beginning":
        return 0
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 64:
        return int(text) - 1
    raise typer.BadParameter(f"{text!r} is not beginning, now or a number from 1", param_hint="--from")
