"""``culm sds status``: the state of channels: buffers, missing and lost messages, clocks, participants."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Final

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, at, out, safe, say, table
from culm_infra.cli.sds.channel import check_channel, complete_channel
from culm_infra.cli.sds.lines import short
from culm_infra.columns import Columns, Row, of
from culm_infra.errors import InfraError
from culm_topics.readers.batch import PassedOver
from culm_topics.sds.ack_status import ChannelStatus, ParticipantStatus, read_channels

_SHOWN_MESSAGES = 20


def _ahead(row: Row) -> str:
    ahead = row["ahead_ms"]
    if ahead is None:
        return "-"
    return f"{ahead} ms" if abs(ahead) < 10_000 else f"{ahead / 1000:.0f} s"


CHANNELS: Final[Columns] = {
    **{name: name for name in ("channel", "profile", "log", "waiting", "missing", "lost", "outgoing")},
    "participants": of("participants", len),
    "ahead": _ahead,
}
PARTICIPANTS: Final[Columns] = {
    "participant": "participant_id",
    "joined": of("joined_ms", at),
    "unacknowledged": "unacknowledged",
    "possibly": "possibly_acknowledged",
    "acknowledged": "acknowledged",
    "given up": "gave_up",
    "next due": of("next_due_ms", at),
}
MESSAGES: Final[Columns] = {
    "participant": of("participant_id", short),
    "message": "message_id",
    "state": of("state", lambda state: state.replace("_", " ")),
    "received by": of("evidence", lambda ids: ", ".join(map(short, ids[:3]))),
    "attempts": "attempts",
    "next due": of("next_due_ms", at),
}


def status(
    channel: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHANNEL]",
            help="Only this channel, with its participants.",
            autocompletion=complete_channel,
        ),
    ] = None,
    *,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Show channels as the job `sds` last wrote them; for one channel also its hosted participants.

    log: messages in order. waiting: messages whose dependencies are missing. missing: those dependencies.
    lost: given up. outgoing: messages of hosted participants that are not acknowledged. ahead: how far the
    Lamport clock is ahead of the channel's time.

    Example: `culm sds status`, `culm sds status general --json`
    """
    if channel is not None:
        check_channel(channel)
    passed_over = PassedOver("sds.acks")
    channels = read_channels(kafka.settings(), channel, passed_over=passed_over)
    results.passed_over(passed_over)
    if channel is not None and channel not in channels:
        raise InfraError(
            f"no channel {channel!r} has been written about",
            hint="`culm sds status` lists channels; is `culm job run sds` running, and has a "
            "participant joined?",
        )
    rows = [_row(name, channel_status) for name, channel_status in sorted(channels.items())]
    if channel is not None and not results.json:
        _show_channel(rows[0], channels[channel])
    elif rows or results.json:
        results.rows(rows, CHANNELS)
        if rows:
            results.next(
                *(f"culm sds {verb} {shlex.quote(rows[0]['channel'])}" for verb in ("status", "tail"))
            )
    else:
        say("no channels yet: `culm job run sds` writes them when a participant joins one")


def _row(name: str, status: ChannelStatus) -> dict[str, Any]:
    summary = status.summary
    names = (
        *("profile", "time_ms", "lamport_timestamp", "log", "waiting", "missing", "lost", "outgoing"),
        *("event_number", "next_due_ms"),
    )
    return {
        "channel": name,
        **{figure: None if summary is None else getattr(summary, figure) for figure in names},
        "ahead_ms": status.ahead_ms,
        "participants": [
            _participant(participant_id, participant)
            for participant_id, participant in sorted(status.participants.items())
        ],
    }


def _participant(participant_id: str, participant: ParticipantStatus) -> dict[str, Any]:
    counts = participant.counts()
    row = participant.row
    due = [
        message.next_due_ms for message in participant.messages.values() if message.next_due_ms is not None
    ]
    return {
        "participant_id": participant_id,
        "joined_ms": None if row is None else row.joined_ms,
        "unacknowledged": counts["unacknowledged"] if row is None else row.unacknowledged,
        "possibly_acknowledged": counts["possibly_acknowledged"]
        if row is None
        else row.possibly_acknowledged,
        "acknowledged": counts["acknowledged"],
        "gave_up": counts["gave_up"],
        "next_due_ms": min(due, default=None),
        "messages": [
            {
                "message_id": message_id,
                "state": message.state,
                "evidence": message.evidence,
                "attempts": message.attempts,
                "next_due_ms": message.next_due_ms,
            }
            for message_id, message in participant.messages.items()
            if message.state not in ("acknowledged", "gave_up")
        ],
    }


def _show_channel(row: dict[str, Any], status: ChannelStatus) -> None:
    if status.summary is None:
        say("the channel's summary has not been written yet")
    else:
        due = "nothing due" if row["next_due_ms"] is None else f"next due {at(row['next_due_ms'])}"
        out.print(
            safe(
                f"{row['channel']}  profile {row['profile']}, {row['event_number']} events, "
                f"clock {at(row['time_ms'])}, Lamport {row['lamport_timestamp']} ({_ahead(row)}), {due}"
            )
        )
        table(None, ("log", "waiting", "missing", "lost", "outgoing"), [row])
    table(None, PARTICIPANTS, row["participants"])
    waiting = [{**who, **message} for who in row["participants"] for message in who["messages"]]
    if waiting:
        title = f"not acknowledged ({min(len(waiting), _SHOWN_MESSAGES)} of {len(waiting)})"
        table(title, MESSAGES, waiting[:_SHOWN_MESSAGES])
