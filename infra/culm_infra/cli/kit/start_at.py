"""`--from`: the place at which a command starts to read a stream, in one form for all commands.

A place is `beginning`, `now`, a number (an event of a channel, an offset of a topic), offsets of partitions
(`PARTITION:OFFSET,…`), or a time. A time is ISO 8601, in UTC unless it names a zone, or so long ago (`10m`,
`2h`, `3d`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from culm_infra.cli.kit.options import words
from culm_infra.errors import InfraError

if TYPE_CHECKING:
    from culm_topics.readers.partitions import TopicPartitions

FLAG: Final = "--from"

From = Annotated[
    str | None,
    typer.Option(
        FLAG,
        metavar="beginning|now|OFFSET|TIME",
        help="Where to start: beginning, now, an offset (PARTITION:OFFSET,… in several partitions), "
        "a time (2026-11-27T10:00, in UTC), or so long ago (10m, 2h, 3d).",
        autocompletion=words("beginning", "now"),
    ),
]
"""The option of commands that read a topic."""

_MAX_OFFSET: Final = (1 << 63) - 1
_MAX_PARTITION: Final = (1 << 31) - 1
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_AGO: Final = re.compile(r"([0-9]{1,9})([smhd])")
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,]+)?(Z|[+-][0-9:]+)?")


@dataclass(frozen=True, slots=True)
class StartNumber:
    """The number of an event, or an offset of a topic with one partition."""

    number: int


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """Offsets by partition; partitions that are not named start now."""

    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class StartTime:
    """A time in milliseconds since 1970, and its text on the command line."""

    time_ms: int
    text: str


StartAt = Literal["beginning", "now"] | StartNumber | StartOffsets | StartTime


def parse_start(text: str, number: str = "an offset", *, now_ms: int | None = None) -> StartAt:
    """Parse the value of `--from`.

    `number` is what a plain number is in this stream; `now_ms` replaces the time of the machine. Raises
    `typer.BadParameter`.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if text == "beginning":
        return "beginning"
    if text == "now":
        return "now"
    if _DIGITS.fullmatch(text) and int(text) <= _MAX_OFFSET:
        return StartNumber(int(text))
    if ago := _AGO.fullmatch(text):
        return StartTime(max(0, now_ms - int(ago[1]) * _SECONDS[ago[2]] * 1_000), text)
    if (time_ms := _time_ms(text)) is not None:
        if time_ms > now_ms:
            raise _refusal(f"{text!r} is in the future: a time without a zone is in UTC")
        return StartTime(time_ms, text)
    if (offsets := _offsets(text)) is not None:
        return StartOffsets(offsets)
    raise _refusal(
        f"{text[:80]!r} is not a place to start: give beginning, now, {number}, or a time as "
        "2026-11-27T10:00 or 10m"
    )


def parse_place(text: str, what: str) -> tuple[int, int]:
    """Parse `PARTITION:OFFSET`, the place of one record. Raises `typer.BadParameter`."""
    if (offsets := _offsets(text)) is None or len(offsets) != 1:
        raise typer.BadParameter(f"{text[:80]!r} is not PARTITION:OFFSET, such as 0:17", param_hint=what)
    (place,) = offsets.items()
    return place


def start_offsets(start: StartAt, reader: TopicPartitions) -> dict[int, int]:
    """Return the offset at which the reading of each partition of a topic starts.

    Raises `typer.BadParameter` if the topic has no such partition or needs the partition of an offset,
    `InfraError` if the topic does not have the offset, `TopicMissing`, and `KafkaFailure`.
    """
    count = reader.count()
    match start:
        case "beginning":
            return reader.starts()
        case StartTime(time_ms=time_ms):
            return {partition: reader.offset_at(partition, time_ms) for partition in range(count)}
        case StartNumber(number=number):
            if count > 1:
                raise _refusal(
                    f"{number} is an offset, and {reader.topic} has {count} partitions: give "
                    f"PARTITION:OFFSET, such as 0:{number}"
                )
            chosen: Mapping[int, int] = {0: number}
        case StartOffsets(offsets=chosen):
            pass
        case _:
            chosen = {}
    if (unknown := max(chosen, default=0)) >= count:
        raise _refusal(
            f"{reader.topic} has the partitions 0 to {count - 1}, not {unknown}; a time of day needs its "
            "date, such as 2026-11-27T10:00"
        )
    offsets = {}
    for partition in range(count):
        first, end = reader.range_of(partition)
        offset = offsets[partition] = chosen.get(partition, end)
        if not first <= offset <= end:
            state = "no longer" if offset < first else "not yet"
            raise InfraError(
                f"offset {offset} is {state} in {reader.topic}: partition {partition} has {first} to {end}",
                hint="start with --from beginning or a time",
            )
    return offsets


def _time_ms(text: str) -> int | None:
    """Return the time of a date or date-time, or None if the text is neither."""
    if not _DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return max(0, int(moment.timestamp() * 1_000))
    except (ValueError, OverflowError):
        return None


def _offsets(text: str) -> dict[int, int] | None:
    """Return the offsets in `PARTITION:OFFSET,…`; None if the text is anything else."""
    offsets: dict[int, int] = {}
    for pair in text.split(","):
        partition, sign, offset = pair.partition(":")
        if not (sign and _DIGITS.fullmatch(partition) and _DIGITS.fullmatch(offset)):
            return None
        if int(partition) > _MAX_PARTITION or int(offset) > _MAX_OFFSET or int(partition) in offsets:
            return None
        offsets[int(partition)] = int(offset)
    return offsets


def _refusal(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint=FLAG)
