"""One row of coverage: the entries and payloads of one log that a peer, or the deployment, holds.

Rows only add to the sets (except for payloads that a peer drops, which apply in the order of the peer's
records), so neither the order of records nor their batches affect the final row.

Of the entries of `logs`, the hashes in the lower pool of the last one are stored: a later link can only name
these and the last, since links never cross.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from culm_models.bamboo.range_set import RangeSet
from culm_streaming.coverage.provable import EntryLinks, lower_pool, provable_entries
from culm_streaming.coverage.rows import CUT_HASH_SIZE, FragmentRow, JoinedRow, flat, range_set
from culm_streaming.errors import StateLayoutError
from culm_topics.logs.records import CoverageRecord, coverage_record

_FORMAT: Final = 1
_HEADER = struct.Struct("<BBxxIIIII")
_HAS_FRAGMENTS = 1
_FRAGMENT = np.dtype(
    [
        ("seq_num", "<u8"),
        ("has", "u1"),
        ("hash", f"V{CUT_HASH_SIZE}"),
        ("backlink", f"V{CUT_HASH_SIZE}"),
        ("skiplink", f"V{CUT_HASH_SIZE}"),
    ]
)
_BACKLINK, _SKIPLINK = 1, 2
_NO_HASH = bytes(CUT_HASH_SIZE)


@dataclass(slots=True)
class HeldLog:
    """The sets of one row.

    Only the deployment's rows use `joined`, `named` and `fragments` (see `provable`).
    """

    entries: RangeSet = field(default_factory=RangeSet)
    payloads: RangeSet = field(default_factory=RangeSet)
    provable: RangeSet = field(default_factory=RangeSet)
    joined: RangeSet = field(default_factory=RangeSet)
    named: dict[int, bytes] = field(default_factory=dict)
    fragments: dict[int, EntryLinks] = field(default_factory=dict)

    def join(self, row: JoinedRow) -> None:
        """Add entries of `logs`."""
        ends = iter(row.payloads)
        for start, end in zip(ends, ends, strict=True):
            self.payloads.add(start, end)
        if self.joined.covers(row.start, row.end):
            return
        self.joined.add(row.start, row.end)
        self.entries.add(row.start, row.end)
        hashes = row.hashes
        for index, number in enumerate(row.numbers):
            self.named[number] = hashes[index * CUT_HASH_SIZE : (index + 1) * CUT_HASH_SIZE]
        if self.fragments:
            for number in [number for number in self.fragments if number in self.joined]:
                del self.fragments[number]

    def add_fragment(self, row: FragmentRow, *, max_fragments: int) -> int:
        """Add an entry behind a gap; returns the growth of the number of stored links."""
        if row.is_whole:
            self.payloads.add(row.seq_num, row.seq_num + 1)
        self.entries.add(row.seq_num, row.seq_num + 1)
        if row.seq_num in self.joined:
            return 0
        links = EntryLinks(row.hash, row.backlink, row.skiplink)
        known = self.fragments.get(row.seq_num)
        # Of a fork, the entry with the smaller hash is stored, in whatever order they arrived.
        if known is not None and known <= links:
            return 0
        before = len(self.fragments)
        self.fragments[row.seq_num] = links
        if len(self.fragments) > max_fragments:
            del self.fragments[max(self.fragments)]
        return len(self.fragments) - before

    def prove(self) -> None:
        """Determine again which entries are proven, and drop hashes that no later link can name."""
        wanted = [number for start, end in self.joined for number in lower_pool(start, end)]
        self.named = {number: self.named[number] for number in wanted}
        self.provable = provable_entries(self.entries, self.joined, self.named, self.fragments)

    def record(self) -> CoverageRecord:
        """Return the record of `coverage` for this row."""
        return coverage_record(self.entries, self.payloads, self.provable)


def encode_row(log: HeldLog) -> tuple[bytes, bytes | None]:
    """Return (the row, the links of its fragments)."""
    sets = [flat(runs) for runs in (log.entries, log.payloads, log.provable, log.joined)]
    numbers = sorted(log.named)
    header = _HEADER.pack(
        _FORMAT,
        _HAS_FRAGMENTS if log.fragments else 0,
        *map(len, sets),
        len(numbers),
    )
    values = np.array([number for column in (*sets, numbers) for number in column], "<u8")
    row = b"".join((header, values.tobytes(), *(log.named[number] for number in numbers)))
    if not log.fragments:
        return row, None
    table = np.array(
        [
            (
                number,
                (_BACKLINK if links.backlink else 0) | (_SKIPLINK if links.skiplink else 0),
                links.hash,
                links.backlink or _NO_HASH,
                links.skiplink or _NO_HASH,
            )
            for number, links in sorted(log.fragments.items())
        ],
        _FRAGMENT,
    )
    return row, bytes((_FORMAT,)) + table.tobytes()


def decode_row(row: bytes, fragments: bytes | None) -> HeldLog:
    """Decode a row. Raises `StateLayoutError` if its format is unknown."""
    form, _, *sizes = _HEADER.unpack_from(row)
    if form != _FORMAT or (fragments is not None and fragments[0] != _FORMAT):
        raise StateLayoutError(f"a row of coverage has format {form}, this program knows {_FORMAT}")
    values = np.frombuffer(row, "<u8", sum(sizes), _HEADER.size).tolist()
    pieces = []
    for size in sizes:
        pieces.append(values[:size])
        values = values[size:]
    start = _HEADER.size + 8 * sum(sizes)
    named = {
        number: row[start + index * CUT_HASH_SIZE : start + (index + 1) * CUT_HASH_SIZE]
        for index, number in enumerate(pieces[4])
    }
    entries, payloads, provable, joined = (range_set(piece) for piece in pieces[:4])
    return HeldLog(entries, payloads, provable, joined, named, _decode_fragments(fragments))


def said_of(row: bytes) -> bytes:
    """Return the part of a row that determines `record`: rows with equal parts have equal records."""
    _, _, *sizes = _HEADER.unpack_from(row)
    counts = struct.pack("<III", *sizes[:3])
    return counts + row[_HEADER.size : _HEADER.size + 8 * sum(sizes[:3])]


def has_fragments(row: bytes) -> bool:
    """Whether links of fragments are stored beside the row."""
    return bool(row[1] & _HAS_FRAGMENTS)


def _decode_fragments(blob: bytes | None) -> dict[int, EntryLinks]:
    if blob is None:
        return {}
    table = np.frombuffer(blob, _FRAGMENT, -1, 1)
    return {
        number: EntryLinks(own, backlink if has & _BACKLINK else b"", skiplink if has & _SKIPLINK else b"")
        for number, has, own, backlink, skiplink in zip(
            *(table[name].tolist() for name in ("seq_num", "has", "hash", "backlink", "skiplink")),
            strict=True,
        )
    }
