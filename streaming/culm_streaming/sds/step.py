"""One shard of channels, one micro-batch: rows or an expired timer and state in, records and state out.

A plain function of its arguments: the same rows on the same state give the same bytes, whatever a worker
still has in its cache. Times are those of the records, of timers, and the batch's own, which Spark writes
down before the batch begins and reads again when it is repeated.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from culm_models.errors import CulmError
from culm_streaming.sds.channel_batch import Input, OpenChannel, new_channel, open_channel
from culm_streaming.sds.inputs import check_profile, command, is_by_operator, receive
from culm_streaming.sds.output_records import OutputRecord, rejected
from culm_streaming.sds.record import Cache, load_record, save_record
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import BucketedState, DueCalendar
from culm_streaming.stateful.job_state import JobState
from culm_topics.errors import RecordError
from culm_topics.sds.keys import split_channel_key
from culm_topics.sds.records import SdsCommandRecord, SdsInRecord


class Source(IntEnum):
    """The topic that a row comes from; in the order in which rows of the same time are taken."""

    COMMANDS = 0
    IN = 1


TOPICS: dict[Source, str] = {Source.COMMANDS: "sds.commands", Source.IN: "sds.in"}


class Row(NamedTuple):
    """One record as Kafka has it. Rows sort as they are to be taken."""

    timestamp_ms: int
    source: int
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def in_order(rows: list[Row]) -> list[Row]:
    """The rows of one shard and micro-batch as they are to be taken: the same in every run of the batch."""
    # No two rows agree in their first four fields, so keys and values are never compared.
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[int, int, int, int]:
    return row[:4]


_MOST_DUE = 4_096
"""Channels that one expired timer looks at; the others follow in the next batch."""
_MOST_TICKS = 16
_CLOCK_SKEW_MS = 60_000
"""A broker's clock counts no further ahead of the job's."""
_OVERDUE_MS = 60_000
"""Lateness of what is due that only an outage explains, or a backlog."""
_PIECE_BYTES = 4 * 1024 * 1024
_PIECE_RECORDS = 4_096


@dataclass(slots=True)
class SdsOutput:
    """Records to write, in order, and what the shard's timer was set to and is to be set to.

    Who runs a batch in pieces takes full ones out as they come, each of `_PIECE_BYTES` and one record at
    most; the timer is known at the end.
    """

    records: list[OutputRecord] = field(default_factory=list)
    timer_before_ms: int | None = None
    timer_ms: int | None = None
    _size_bytes: int = 0
    _full: list[list[OutputRecord]] = field(default_factory=list)

    def add(self, records: list[OutputRecord]) -> None:
        """More records."""
        for record in records:
            self.records.append(record)
            self._size_bytes += len(record.value or b"")
            if self._size_bytes > _PIECE_BYTES or len(self.records) >= _PIECE_RECORDS:
                self._end_piece()

    def take(self) -> list[list[OutputRecord]]:
        """The pieces that are full and not taken yet."""
        full, self._full = self._full, []
        return full

    def take_last(self) -> list[list[OutputRecord]]:
        """As `take`, and what is left."""
        if self.records:
            self._end_piece()
        return self.take()

    def _end_piece(self) -> None:
        self._full.append(self.records)
        self.records, self._size_bytes = [], 0


class _Shard:
    """A shard during one batch: the channels that it has touched, in the order in which that came about."""

    def __init__(
        self, state: JobState, settings: ChannelsSettings, cache: Cache, batch_ms: int, output: SdsOutput
    ) -> None:
        self._state = BucketedState(state)
        self._settings = settings
        self._cache = cache
        self._batch_ms = batch_ms
        self._opened: dict[str, OpenChannel] = {}
        self.wakes = DueCalendar.load(state, settings)
        self.output = output
        output.timer_before_ms = self.wakes.timer_ms

    def bounded_ms(self, time_ms: int) -> int:
        """When a record came, by the broker's clock as far as that is not ahead of the job's.

        The clock of a channel never goes back: one record of a broker whose clock was wrong for a moment
        would keep its timers from being due, and put its participants' Lamport timestamps ahead.
        """
        return min(time_ms, self._batch_ms + _CLOCK_SKEW_MS)

    def find(self, channel_id: str) -> OpenChannel | None:
        """A channel that is in state, or has begun in this batch."""
        opened = self._opened.get(channel_id)
        if opened is None:
            record = load_record(self._state, channel_id)
            if record is not None:
                opened = open_channel(self._state, channel_id, record, self._settings, self._cache)
                self._opened[channel_id] = opened
        return opened

    def wake(self, channel_id: str, time_ms: int, until_ms: int) -> OpenChannel | None:
        """A channel that stands under this time, if it does so still and is due; else it is put down anew."""
        if channel_id in self._opened:
            return None  # It has stood in two places, and was looked at already.
        record = load_record(self._state, channel_id)
        if record is None or record.wake_ms != time_ms:
            return None
        record.wake_ms = None
        if record.due_ms is not None and record.due_ms <= until_ms:
            opened = open_channel(self._state, channel_id, record, self._settings, self._cache)
            self._opened[channel_id] = opened
            return opened
        record.wake_ms = self.wakes.put(channel_id.encode(), record.due_ms, None, self._batch_ms)
        save_record(self._state, channel_id, record)
        return None

    def begin(self, channel_id: str, record: SdsInRecord | SdsCommandRecord, now_ms: int) -> OpenChannel:
        """A new channel; it stays when something sound comes."""
        opened = new_channel(self._state, channel_id, record.profile, self._settings, now_ms)
        opened.now_ms(now_ms)
        return opened

    def keep(self, opened: OpenChannel) -> None:
        """Hand on what the channel has told so far; one that is to be kept is written at the end."""
        if opened.is_kept:
            self._opened[opened.channel_id] = opened
        self.output.add(opened.records)
        opened.records.clear()

    def close(self) -> Iterator[list[OutputRecord]]:
        """Write what was touched; the last pieces."""
        for opened in self._opened.values():
            record = opened.record
            record.due_ms = opened.due_ms
            record.wake_ms = self.wakes.put(opened.key, record.due_ms, record.wake_ms, self._batch_ms)
            self.output.add(opened.save(self._cache))
            yield from self.output.take()
        self.output.timer_ms = self.wakes.save(self._state, self._batch_ms)
        self._state.flush()
        yield from self.output.take_last()


def step(
    state: JobState,
    rows: Iterable[Row],
    batch_ms: int,
    settings: ChannelsSettings,
    cache: Cache,
    prefix: str = "",
) -> SdsOutput:
    """Take the rows of one shard, in their order. `prefix` is that of the topics' names."""
    output = SdsOutput()
    output.records = _joined(step_in_pieces(state, rows, batch_ms, settings, cache, output, prefix))
    return output


def step_in_pieces(
    state: JobState,
    rows: Iterable[Row],
    batch_ms: int,
    settings: ChannelsSettings,
    cache: Cache,
    output: SdsOutput,
    prefix: str = "",
) -> Iterator[list[OutputRecord]]:
    """As `step`, the records in pieces of some MiB as they come: who writes them need not wait for the last.

    State is whole, and `output` knows of the timer, when all pieces have been taken.
    """
    shard = _Shard(state, settings, cache, batch_ms, output)
    newest: dict[int, int] = {}
    for row in rows:
        newest[row.source] = max(row.timestamp_ms, newest.get(row.source, 0))
        source = Source(row.source)
        place = (prefix + TOPICS[source], row.partition, row.offset)
        try:
            _take(shard, row, source, place)
        except RecordError as error:
            shard.output.add([rejected(error.code, str(error), wire=row.value, peer_id=None, source=place)])
        yield from output.take()
    newest_ms = min(newest.values(), default=batch_ms)
    if newest_ms < batch_ms - settings.lag_ms:
        shard.wakes.lag = (batch_ms, newest_ms)
    yield from shard.close()


def _take(shard: _Shard, row: Row, source: Source, place: tuple[str, int, int]) -> None:
    channel_id = split_channel_key(row.key)
    if source is Source.IN:
        message = SdsInRecord.decode(row.value)
        record: SdsInRecord | SdsCommandRecord = message
        given = Input(place, message.wire, message.peer_id, message.retrieval_hint)
    else:
        record = asked = SdsCommandRecord.decode(row.value)
        given = Input(place, peer_id=asked.peer_id, token=asked.token, command=asked.kind)
    opened = shard.find(channel_id)
    is_known = opened is not None
    came_ms = shard.bounded_ms(row.timestamp_ms)
    if opened is None:
        opened = shard.begin(channel_id, record, came_ms)
        opened.owners.take_channel(record.peer_id, came_ms)
    now_ms = opened.now_ms(came_ms)
    try:
        if is_known and not is_by_operator(record):
            check_profile(opened, record.profile)
        if isinstance(record, SdsInRecord):
            receive(opened, record, given, now_ms)
        else:
            command(opened, record, given, now_ms)
    except CulmError as error:
        opened.refuse(error.with_traceback(None), given)
    shard.keep(opened)


def fire(
    state: JobState, expiry_ms: int, batch_ms: int, settings: ChannelsSettings, cache: Cache
) -> SdsOutput:
    """The shard's timer has expired: do what is due by then, each thing once, and set the timer anew."""
    output = SdsOutput()
    output.records = _joined(fire_in_pieces(state, expiry_ms, batch_ms, settings, cache, output))
    return output


def fire_in_pieces(
    state: JobState,
    expiry_ms: int,
    batch_ms: int,
    settings: ChannelsSettings,
    cache: Cache,
    output: SdsOutput,
) -> Iterator[list[OutputRecord]]:
    """As `fire`, the records in pieces; see `step_in_pieces`."""
    shard = _Shard(state, settings, cache, batch_ms, output)
    wakes = shard.wakes
    until_ms: int | None = expiry_ms
    if wakes.lag is not None and wakes.lag[0] == batch_ms:
        # What is unread may hold the answer to what is due: see `ChannelsSettings.lag_ms`.
        is_long = batch_ms - wakes.looked_ms >= settings.lag_tick_ms
        until_ms = min(expiry_ms, wakes.lag[1]) if is_long else None
    elif batch_ms - expiry_ms > settings.lag_ms:
        # The job was not there: what has been due many times meanwhile is done once, now.
        until_ms = batch_ms
    if until_ms is not None:
        wakes.looked_ms = batch_ms
        for time_ms, channel in wakes.take(state, until_ms, _MOST_DUE):
            opened = shard.wake(channel.decode(), time_ms, until_ms)
            if opened is not None:
                _tick(opened, until_ms)
                shard.keep(opened)
                yield from output.take()
    yield from shard.close()


def _joined(pieces: Iterator[list[OutputRecord]]) -> list[OutputRecord]:
    return [record for piece in pieces for record in piece]


def _tick(opened: OpenChannel, until_ms: int) -> None:
    if opened.due_ms is not None and opened.due_ms + _OVERDUE_MS <= until_ms:
        # The job was not there: nobody asked meanwhile for what should have been given up.
        now_ms = opened.now_ms(until_ms)
        opened.take(opened.channel.fetch_again(now_ms, overdue_ms=_OVERDUE_MS), now_ms, None)
    for _ in range(_MOST_TICKS):
        due_ms = opened.due_ms
        if due_ms is None or due_ms > until_ms:
            return
        now_ms = opened.now_ms(until_ms)
        opened.take(opened.channel.tick(now_ms), now_ms, None)
