"""One shard of channels, one micro-batch: rows or an expired timer and state in, records and state out.

A plain function of its arguments: the same rows and the same state give the same bytes, whatever a worker has
in its cache. Times are those of the records, of timers, and of the batch, which Spark writes down before the
batch begins and reads again when it is repeated.
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
    """The topic of a row; in the order in which rows with the same time are processed."""

    COMMANDS = 0
    IN = 1


TOPICS: dict[Source, str] = {Source.COMMANDS: "sds.commands", Source.IN: "sds.in"}


class Row(NamedTuple):
    """One record from Kafka. Rows sort in the order of processing."""

    timestamp_ms: int
    source: int
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def in_order(rows: list[Row]) -> list[Row]:
    """Return the rows of one shard and micro-batch in the order of processing, the same in every run."""
    # No two rows agree in their first four fields, so keys and values are never compared.
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[int, int, int, int]:
    return row[:4]


_MAX_DUE = 4_096
"""Limit of channels that one expired timer checks; the others follow in the next batch."""
_MAX_TICKS = 16
_CLOCK_SKEW_MS = 60_000
"""Limit of a broker's clock ahead of the job's."""
_OVERDUE_MS = 60_000
"""Lateness of due actions that only an outage or a backlog explains."""
_PIECE_BYTES = 4 * 1024 * 1024
_PIECE_RECORDS = 4_096


@dataclass(slots=True)
class SdsOutput:
    """Records to write, in order, and the previous and the new time of the shard's timer.

    A caller that runs a batch in pieces removes full ones as they are completed, each of at most
    `_PIECE_BYTES` and one record; the timer is known at the end.
    """

    records: list[OutputRecord] = field(default_factory=list)
    timer_before_ms: int | None = None
    timer_ms: int | None = None
    _size_bytes: int = 0
    _full: list[list[OutputRecord]] = field(default_factory=list)

    def add(self, records: list[OutputRecord]) -> None:
        """Add records."""
        for record in records:
            self.records.append(record)
            self._size_bytes += len(record.value or b"")
            if self._size_bytes > _PIECE_BYTES or len(self.records) >= _PIECE_RECORDS:
                self._end_piece()

    def take(self) -> list[list[OutputRecord]]:
        """Return the full pieces that have not been taken yet."""
        full, self._full = self._full, []
        return full

    def take_last(self) -> list[list[OutputRecord]]:
        """Return the full pieces and the rest."""
        if self.records:
            self._end_piece()
        return self.take()

    def _end_piece(self) -> None:
        self._full.append(self.records)
        self.records, self._size_bytes = [], 0


class _Shard:
    """A shard during one batch: the channels that it has touched, in that order."""

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
        """Return when a record arrived: by the broker's clock, limited to slightly ahead of the job's.

        The clock of a channel never goes back: a single record from a broker whose clock was wrong for a
        moment would delay its timers, and put its participants' Lamport timestamps ahead.
        """
        return min(time_ms, self._batch_ms + _CLOCK_SKEW_MS)

    def find(self, channel_id: str) -> OpenChannel | None:
        """Return a channel that is in state, or that began in this batch; else None."""
        opened = self._opened.get(channel_id)
        if opened is None:
            record = load_record(self._state, channel_id)
            if record is not None:
                opened = open_channel(self._state, channel_id, record, self._settings, self._cache)
                self._opened[channel_id] = opened
        return opened

    def wake(self, channel_id: str, time_ms: int, until_ms: int) -> OpenChannel | None:
        """Return a channel with this time in the calendar if it is due; otherwise enter it again."""
        if channel_id in self._opened:
            return None  # in the calendar twice, and processed already
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
        """Create a channel; it is kept once it has valid input."""
        opened = new_channel(self._state, channel_id, record.profile, self._settings, now_ms)
        opened.now_ms(now_ms)
        return opened

    def keep(self, opened: OpenChannel) -> None:
        """Add the channel's output to the shard's; a channel to keep is written at the end."""
        if opened.is_kept:
            self._opened[opened.channel_id] = opened
        self.output.add(opened.records)
        opened.records.clear()

    def close(self) -> Iterator[list[OutputRecord]]:
        """Write the touched channels, and yield the last pieces."""
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
    """Process the rows of one shard, in order. `prefix` is that of the topics' names."""
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
    """Run `step` and yield the records in pieces of some MiB, so that they can be written early.

    The state is complete, and `output` has the timer, when all pieces have been taken.
    """
    shard = _Shard(state, settings, cache, batch_ms, output)
    newest: dict[int, int] = {}
    for row in rows:
        newest[row.source] = max(row.timestamp_ms, newest.get(row.source, 0))
        source = Source(row.source)
        position = (prefix + TOPICS[source], row.partition, row.offset)
        try:
            _take(shard, row, source, position)
        except RecordError as error:
            shard.output.add(
                [rejected(error.code, str(error), wire=row.value, peer_id=None, source=position)]
            )
        yield from output.take()
    newest_ms = min(newest.values(), default=batch_ms)
    if newest_ms < batch_ms - settings.lag_ms:
        shard.wakes.lag = (batch_ms, newest_ms)
    yield from shard.close()


def _take(shard: _Shard, row: Row, source: Source, position: tuple[str, int, int]) -> None:
    channel_id = split_channel_key(row.key)
    if source is Source.IN:
        message = SdsInRecord.decode(row.value)
        record: SdsInRecord | SdsCommandRecord = message
        incoming = Input(position, message.wire, message.peer_id, message.retrieval_hint)
    else:
        record = asked = SdsCommandRecord.decode(row.value)
        incoming = Input(position, peer_id=asked.peer_id, token=asked.token, command=asked.kind)
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
            receive(opened, record, incoming, now_ms)
        else:
            command(opened, record, incoming, now_ms)
    except CulmError as error:
        opened.refuse(error.with_traceback(None), incoming)
    shard.keep(opened)


def fire(
    state: JobState, expiry_ms: int, batch_ms: int, settings: ChannelsSettings, cache: Cache
) -> SdsOutput:
    """Run the actions due when the shard's timer expired, each once, and set the timer again."""
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
    """Run `fire` and yield the records in pieces; see `step_in_pieces`."""
    shard = _Shard(state, settings, cache, batch_ms, output)
    wakes = shard.wakes
    until_ms: int | None = expiry_ms
    if wakes.lag is not None and wakes.lag[0] == batch_ms:
        # Unread records may make a due action unnecessary: see `ChannelsSettings.lag_ms`.
        is_long = batch_ms - wakes.looked_ms >= settings.lag_tick_ms
        until_ms = min(expiry_ms, wakes.lag[1]) if is_long else None
    elif batch_ms - expiry_ms > settings.lag_ms:
        # The job was stopped: actions that were due many times meanwhile are run once, now.
        until_ms = batch_ms
    if until_ms is not None:
        wakes.looked_ms = batch_ms
        for time_ms, channel in wakes.take(state, until_ms, _MAX_DUE):
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
        # The job was stopped: missing messages were not requested meanwhile, so they are not given up yet.
        now_ms = opened.now_ms(until_ms)
        opened.take(opened.channel.fetch_again(now_ms, overdue_ms=_OVERDUE_MS), now_ms, None)
    for _ in range(_MAX_TICKS):
        due_ms = opened.due_ms
        if due_ms is None or due_ms > until_ms:
            return
        now_ms = opened.now_ms(until_ms)
        opened.take(opened.channel.tick(now_ms), now_ms, None)
