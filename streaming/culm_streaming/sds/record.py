"""A channel's record in state: its small parts, read and written whenever the channel is touched.

`token` identifies everything that was ever written of the channel: it is a hash over the previous token and
the present write. A worker's copy of the channel with the same token is therefore equal to the channel in
state.

The journal beside it is kept in segments as they were written: its growth in one batch, or the whole journal
when it was rewritten. The record's tail holds segments until it is full, and is then moved into the last
chunk, or into a new one if that is full; so most batches write only the record, and a chunk now and then.

A worker keeps recently used channels in memory and evicts the least recently used first. A copy is taken out
before it is used and put back when its state is written: after a failure it is gone. Its token tells whether
it still equals the channel in state.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import cbor2

from culm_models.sds.channel import Channel
from culm_models.sds.wire.messages import Profile
from culm_streaming.errors import StateLayoutError, StateMissingError
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind, name_of
from culm_streaming.stateful.job_state import JobState
from culm_topics.sds.records import Details

Segment = tuple[int, bytes, bool]
"""(the journal's mark after it, bytes, whether the next segment continues it)."""


@dataclass(slots=True)
class StoredJournal:
    """The location of a channel's journal. `ends` has the mark after each chunk."""

    ends: list[int] = field(default_factory=list)
    tail: list[Segment] = field(default_factory=list)
    mark: int = 0
    size_bytes: int = 0
    new_bytes: int = 0
    """Its size when it was last rewritten."""

    def pack(self) -> list[object]:
        """Return the journal's form in the channel's record."""
        return [self.ends, self.tail, self.mark, self.size_bytes, self.new_bytes]

    @staticmethod
    def unpack(items: list[object]) -> "StoredJournal":
        """Return the journal from the result of `pack`."""
        ends, tail, mark, size_bytes, new_bytes = items
        return StoredJournal(ends, [(*segment,) for segment in tail], mark, size_bytes, new_bytes)  # type: ignore[attr-defined, arg-type]


def append_segment(
    state: JobState,
    channel: bytes,
    journal: StoredJournal,
    mark: int,
    data: bytes,
    settings: ChannelsSettings,
) -> None:
    """Add the bytes written since the journal's mark; the caller saves the record."""
    journal.tail.append((mark, data, False))
    journal.mark = mark
    journal.size_bytes += len(data)
    if sum(len(segment[1]) for segment in journal.tail) > settings.tail_bytes:
        _flush(state, channel, journal, settings)


def is_to_compact(journal: StoredJournal, settings: ChannelsSettings) -> bool:
    """Whether the journal has grown so much that it should be rewritten."""
    return journal.size_bytes > 2 * journal.new_bytes + settings.compact_bytes


def replace_journal(
    state: JobState,
    channel: bytes,
    journal: StoredJournal,
    mark: int,
    whole: bytes,
    settings: ChannelsSettings,
) -> None:
    """Rewrite the journal; the previous one is removed."""
    former = len(journal.ends)
    journal.ends, journal.tail = [], []
    journal.mark, journal.size_bytes, journal.new_bytes = mark, len(whole), len(whole)
    size = settings.chunk_bytes
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)] or [b""]
    if len(whole) <= settings.tail_bytes:
        journal.tail = [(mark, whole, False)]
    else:
        for number, piece in enumerate(pieces):
            _save(state, channel, number, [(mark, piece, number + 1 < len(pieces))])
            journal.ends.append(mark)
    for number in range(len(journal.ends), former):
        state.save(StateKind.JOURNAL, name_of(channel, number), None)


def segments(state: JobState, channel: bytes, journal: StoredJournal, since: int) -> Iterator[bytes]:
    """Yield the writes after an earlier mark of the journal, or all of them (-1), in order."""
    parts: list[bytes] = []
    for mark, data, goes_on in _stored(state, channel, journal, since):
        if mark > since:
            parts.append(data)
            if not goes_on:
                yield b"".join(parts)
                parts = []


def _stored(state: JobState, channel: bytes, journal: StoredJournal, since: int) -> Iterator[Segment]:
    for number, end in enumerate(journal.ends):
        if end > since:
            yield from _load(state, channel, number)
    yield from journal.tail


def _flush(state: JobState, channel: bytes, journal: StoredJournal, settings: ChannelsSettings) -> None:
    number = len(journal.ends) - 1
    chunk = _load(state, channel, number) if journal.ends else []
    if not chunk or sum(len(segment[1]) for segment in chunk) >= settings.chunk_bytes:
        chunk = []
        number += 1
        journal.ends.append(journal.mark)
    _save(state, channel, number, chunk + journal.tail)
    journal.ends[number] = journal.mark
    journal.tail = []


def _load(state: JobState, channel: bytes, number: int) -> list[Segment]:
    blob = state.load(StateKind.JOURNAL, name_of(channel, number))
    if blob is None:
        raise StateMissingError(f"chunk {number} of a channel's journal is missing")
    return [(mark, data, goes_on) for mark, data, goes_on in cbor2.loads(blob)]


def _save(state: JobState, channel: bytes, number: int, chunk: list[Segment]) -> None:
    state.save(StateKind.JOURNAL, name_of(channel, number), cbor2.dumps(chunk))


_FORMAT = 2
_FORMAT_WITHOUT_OWNERS = 1
_TOKEN_BYTES = 16
NO_TOKEN = bytes(_TOKEN_BYTES)


@dataclass(slots=True)
class ChannelRecord:
    """The record of a channel.

    `lineage` are former tokens, each with the journal's mark of that time, the newest last. `settings` are
    those that differ from the profile's, `are_settings_final` tells whether a join has decided them.
    `last_ms` is the channel's clock, `due_ms` the time of its next action, `wake_ms` its time in the
    calendar. `lost` counts the ids given up so far. `held` are messages in quarantine whose bytes are kept.
    `head` is that of the state machine (`Channel.head`). `owned` counts the participant ids that have an
    owner (`owners`).
    """

    profile: Profile
    settings: Details = field(default_factory=dict)
    are_settings_final: bool = False
    last_ms: int = 0
    event_number: int = 0
    lost: int = 0
    due_ms: int | None = None
    wake_ms: int | None = None
    held: list[str] = field(default_factory=list)
    token: bytes = NO_TOKEN
    lineage: list[tuple[bytes, int]] = field(default_factory=list)
    journal: StoredJournal = field(default_factory=StoredJournal)
    head: bytes = b""
    owned: int = 0

    def pack(self) -> bytes:
        """Return the record's bytes: equal for equal records."""
        return cbor2.dumps(
            (
                _FORMAT,
                self.profile,
                dict(sorted(self.settings.items())),
                self.are_settings_final,
                self.last_ms,
                self.event_number,
                self.lost,
                self.due_ms,
                self.wake_ms,
                self.held,
                self.token,
                self.lineage,
                self.journal.pack(),
                self.head,
                self.owned,
            )
        )

    @staticmethod
    def unpack(blob: bytes) -> "ChannelRecord":
        """Return the record from the result of `pack`. Raises `StateLayoutError` for another format."""
        form, *items = cbor2.loads(blob)
        if form == _FORMAT_WITHOUT_OWNERS:
            items.append(0)
        elif form != _FORMAT:
            raise StateLayoutError(f"a channel's state has format {form}, this program knows {_FORMAT}")
        profile, settings, are_final, last_ms, number, lost, due_ms, wake_ms, *rest = items
        held_ids, token, lineage, journal, head, owned = rest
        named = {name: tuple(value) if type(value) is list else value for name, value in settings.items()}
        pairs = [(former, mark) for former, mark in lineage]
        return ChannelRecord(
            profile,
            named,
            are_final,
            last_ms,
            number,
            lost,
            due_ms,
            wake_ms,
            held_ids,
            token,
            pairs,
            StoredJournal.unpack(journal),
            head,
            owned,
        )

    def advance(self, former_mark: int, written: bytes, max_lineage: int, *, is_anew: bool) -> None:
        """Set the token after `written` and the head; after a rewrite, older copies cannot be updated."""
        if is_anew:
            self.lineage = []
        elif self.token != NO_TOKEN:
            self.lineage = [*self.lineage, (self.token, former_mark)][-max_lineage:]
        settings = cbor2.dumps((self.profile, dict(sorted(self.settings.items()))))
        digest = blake2b(self.token, digest_size=_TOKEN_BYTES)
        for part in (settings, written, self.head):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        self.token = digest.digest()


def load_record(state: JobState, channel_id: str) -> ChannelRecord | None:
    """Return a channel's record; None if the channel is not in state."""
    blob = state.load(StateKind.CHANNEL, name_of(channel_id))
    return None if blob is None else ChannelRecord.unpack(blob)


def save_record(state: JobState, channel_id: str, record: ChannelRecord) -> None:
    """Write a channel's record."""
    state.save(StateKind.CHANNEL, name_of(channel_id), record.pack())


_BASE_WEIGHT = 2
"""Weight of a channel in addition to its own weight, in log entries."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A channel as of the state with this token; `mark` is that of its journal."""

    token: bytes
    mark: int
    channel: Channel
    weight: int

    @staticmethod
    def of(token: bytes, channel: Channel) -> "Copy":
        """Return a copy, with its weight computed from the channel."""
        return Copy(token, channel.journal_mark, channel, _BASE_WEIGHT + channel.weight())


class Cache:
    """Copies by channel; their total weight is at most `most_weight`."""

    def __init__(self, most_weight: int) -> None:
        self._most_weight = most_weight
        self._copies: OrderedDict[bytes, Copy] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._copies)

    def copies(self) -> Iterator[Copy]:
        """Iterate over all copies, the least recently used first."""
        return iter(self._copies.values())

    @property
    def weight(self) -> int:
        """The total weight of all copies."""
        return self._weight

    def take(self, channel: bytes) -> Copy | None:
        """Remove and return a channel's copy, or None."""
        copy = self._copies.pop(channel, None)
        if copy is not None:
            self._weight -= copy.weight
        return copy

    def put(self, channel: bytes, copy: Copy) -> None:
        """Store a copy as the newest and evict old ones; a copy that exceeds the limit is not kept."""
        self.take(channel)
        if copy.weight > self._most_weight:
            return
        self._copies[channel] = copy
        self._weight += copy.weight
        while self._weight > self._most_weight:
            _, oldest = self._copies.popitem(last=False)
            self._weight -= oldest.weight
