"""A channel's journal in state: segments as they were written, the newest beside the channel's record.

A segment is what a channel's journal gained in one batch, or the whole of it when it was written anew. The
record's tail takes them until it is full and goes then into the last chunk, or into a new one when that is
full; so a batch writes the record alone, and now and then one chunk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import cbor2

from culm_streaming.errors import StateMissingError
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import Kind, State, name_of

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


def append(
    state: State, channel: bytes, journal: Journal, mark: int, data: bytes, settings: ChannelsSettings
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


def replace(
    state: State, channel: bytes, journal: Journal, mark: int, whole: bytes, settings: ChannelsSettings
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


def segments(state: State, channel: bytes, journal: Journal, since: int) -> Iterator[bytes]:
    """What was written after a mark that was the journal's once, or after its beginning (-1), in order."""
    parts: list[bytes] = []
    for mark, data, goes_on in _stored(state, channel, journal, since):
        if mark > since:
            parts.append(data)
            if not goes_on:
                yield b"".join(parts)
                parts = []


def _stored(state: State, channel: bytes, journal: Journal, since: int) -> Iterator[Segment]:
    for number, end in enumerate(journal.ends):
        if end > since:
            yield from _load(state, channel, number)
    yield from journal.tail


def _flush(state: State, channel: bytes, journal: Journal, settings: ChannelsSettings) -> None:
    number = len(journal.ends) - 1
    chunk = _load(state, channel, number) if journal.ends else []
    if not chunk or sum(len(segment[1]) for segment in chunk) >= settings.chunk_bytes:
        chunk = []
        number += 1
        journal.ends.append(journal.mark)
    _save(state, channel, number, chunk + journal.tail)
    journal.ends[number] = journal.mark
    journal.tail = []


def _load(state: State, channel: bytes, number: int) -> list[Segment]:
    blob = state.load(Kind.JOURNAL, name_of(channel, number))
    if blob is None:
        raise StateMissingError(f"chunk {number} of a channel's journal is missing")
    return [(mark, data, goes_on) for mark, data, goes_on in cbor2.loads(blob)]


def _save(state: State, channel: bytes, number: int, chunk: list[Segment]) -> None:
    state.save(Kind.JOURNAL, name_of(channel, number), cbor2.dumps(chunk))
