"""A channel's record in state: all of it that is small, read and written whenever the channel is touched.

`token` stands for everything that was ever written of the channel: it is a hash over the former token and
what is written now, so a worker's copy of the channel with the same token is the channel as it is in state.

The journal beside it is kept in segments as they were written: what it gained in one batch, or the whole of
it when it was written anew. The record's tail takes them until it is full and goes then into the last chunk,
or into a new one when that is full; so a batch writes the record alone, and now and then one chunk.

A worker keeps the channels that it has used last in memory; the one used longest ago is forgotten first. A
copy is taken out before it is used and put back when its state is written: after a failure it is gone. Its
token says whether it is still the channel as it is in state.
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
from culm_streaming.sds.state import Kind, name_of
from culm_streaming.stateful.job_state import JobState
from culm_topics.sds.records import Details

Segment = tuple[int, bytes, bool]
"""(the journal's mark behind it, bytes, whether the next segment belongs to it)."""


@dataclass(slots=True)
class Journal:
    """Where the journal of a channel is. `ends` has the mark behind each chunk."""

    ends: list[int] = field(default_factory=list)
    tail: list[Segment] = field(default_factory=list)
    mark: int = 0
    size_bytes: int = 0
    new_bytes: int = 0
    """How large it was when it was last written anew."""

    def pack(self) -> list[object]:
        """As it stands in the channel's record."""
        return [self.ends, self.tail, self.mark, self.size_bytes, self.new_bytes]

    @staticmethod
    def unpack(items: list[object]) -> "Journal":
        """What `pack` gave."""
        ends, tail, mark, size_bytes, new_bytes = items
        return Journal(ends, [(*segment,) for segment in tail], mark, size_bytes, new_bytes)  # type: ignore[attr-defined, arg-type]


def append_segment(
    state: JobState, channel: bytes, journal: Journal, mark: int, data: bytes, settings: ChannelsSettings
) -> None:
    """Add what was written since the journal's mark; the record is the caller's to save."""
    journal.tail.append((mark, data, False))
    journal.mark = mark
    journal.size_bytes += len(data)
    if sum(len(segment[1]) for segment in journal.tail) > settings.tail_bytes:
        _flush(state, channel, journal, settings)


def is_to_compact(journal: Journal, settings: ChannelsSettings) -> bool:
    """Whether so much was added that the journal is better written anew."""
    return journal.size_bytes > 2 * journal.new_bytes + settings.compact_bytes


def replace_journal(
    state: JobState, channel: bytes, journal: Journal, mark: int, whole: bytes, settings: ChannelsSettings
) -> None:
    """Write the journal anew; nothing of the former one stays."""
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
        state.save(Kind.JOURNAL, name_of(channel, number), None)


def segments(state: JobState, channel: bytes, journal: Journal, since: int) -> Iterator[bytes]:
    """What was written after a mark that was the journal's once, or after its beginning (-1), in order."""
    parts: list[bytes] = []
    for mark, data, goes_on in _stored(state, channel, journal, since):
        if mark > since:
            parts.append(data)
            if not goes_on:
                yield b"".join(parts)
                parts = []


def _stored(state: JobState, channel: bytes, journal: Journal, since: int) -> Iterator[Segment]:
    for number, end in enumerate(journal.ends):
        if end > since:
            yield from _load(state, channel, number)
    yield from journal.tail


def _flush(state: JobState, channel: bytes, journal: Journal, settings: ChannelsSettings) -> None:
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
    blob = state.load(Kind.JOURNAL, name_of(channel, number))
    if blob is None:
        raise StateMissingError(f"chunk {number} of a channel's journal is missing")
    return [(mark, data, goes_on) for mark, data, goes_on in cbor2.loads(blob)]


def _save(state: JobState, channel: bytes, number: int, chunk: list[Segment]) -> None:
    state.save(Kind.JOURNAL, name_of(channel, number), cbor2.dumps(chunk))


_FORMAT = 2
_FORMAT_WITHOUT_OWNERS = 1
_TOKEN_BYTES = 16
NO_TOKEN = bytes(_TOKEN_BYTES)


@dataclass(slots=True)
class ChannelRecord:
    """`lineage`: former tokens, each with the journal's mark of that time, the newest last.

    `settings` are those that differ from the profile's, `are_settings_final` whether a join has decided them.
    `last_ms` is the channel's clock, `due_ms` when it has something to do, `wake_ms` when it is looked at.
    `lost` counts the ids given up so far. `held` are messages in quarantine whose bytes are kept. `head` is
    the machine's own (`Channel.head`). `owned` counts the participant ids that belong to somebody (`owners`).
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
    journal: Journal = field(default_factory=Journal)
    head: bytes = b""
    owned: int = 0

    def pack(self) -> bytes:
        """The record's bytes: equal for equal records."""
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
        """What `pack` gave. Raises `StateLayoutError` for another format."""
        form, *items = cbor2.loads(blob)
        if form == _FORMAT_WITHOUT_OWNERS:
            items.append(0)
        elif form != _FORMAT:
            raise StateLayoutError(f"a channel's state has format {form}, this program knows {_FORMAT}")
        profile, settings, are_final, last_ms, number, lost, due_ms, wake_ms, *rest = items
        held, token, lineage, journal, head, owned = rest
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
            held,
            token,
            pairs,
            Journal.unpack(journal),
            head,
            owned,
        )

    def advance(self, former_mark: int, written: bytes, most: int, *, is_anew: bool) -> None:
        """The token after `written` and the head; behind a journal written anew no former copy goes on."""
        if is_anew:
            self.lineage = []
        elif self.token != NO_TOKEN:
            self.lineage = [*self.lineage, (self.token, former_mark)][-most:]
        settings = cbor2.dumps((self.profile, dict(sorted(self.settings.items()))))
        digest = blake2b(self.token, digest_size=_TOKEN_BYTES)
        for part in (settings, written, self.head):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        self.token = digest.digest()


def load_record(state: JobState, channel_id: str) -> ChannelRecord | None:
    """A channel's record; None where the channel is not in state."""
    blob = state.load(Kind.CHANNEL, name_of(channel_id))
    return None if blob is None else ChannelRecord.unpack(blob)


def save_record(state: JobState, channel_id: str, record: ChannelRecord) -> None:
    """Write a channel's record."""
    state.save(Kind.CHANNEL, name_of(channel_id), record.pack())


_BASE_WEIGHT = 2
"""What a channel takes beside all that its own weight counts, in log entries."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A channel as it was when its state had this token; `mark` is that of its journal."""

    token: bytes
    mark: int
    channel: Channel
    weight: int

    @staticmethod
    def of(token: bytes, channel: Channel) -> "Copy":
        """A copy, weighed by what the channel holds."""
        return Copy(token, channel.journal_mark, channel, _BASE_WEIGHT + channel.weight())


class Cache:
    """Copies by channel; their weights are together at most `most_weight`."""

    def __init__(self, most_weight: int) -> None:
        self._most_weight = most_weight
        self._copies: OrderedDict[bytes, Copy] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._copies)

    def copies(self) -> Iterator[Copy]:
        """All of them, the one used longest ago first."""
        return iter(self._copies.values())

    @property
    def weight(self) -> int:
        """What all copies weigh."""
        return self._weight

    def take(self, channel: bytes) -> Copy | None:
        """A channel's copy, which is not here any more then."""
        copy = self._copies.pop(channel, None)
        if copy is not None:
            self._weight -= copy.weight
        return copy

    def put(self, channel: bytes, copy: Copy) -> None:
        """Keep a copy as the newest; others go for it, and it is not kept when it is too heavy by itself."""
        self.take(channel)
        if copy.weight > self._most_weight:
            return
        self._copies[channel] = copy
        self._weight += copy.weight
        while self._weight > self._most_weight:
            _, oldest = self._copies.popitem(last=False)
            self._weight -= oldest.weight
