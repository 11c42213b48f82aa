"""The sender of diffs: the fields that a snapshot holds and a peer is missing, as D packets and V.

Reference 4.1. `Diff` walks the blocks whose vectors are ahead of the peer's global vector. A field whose own
source is ahead is sent whole, another field as its `xdiff`. Towards a peer that reads filtered diffs, fields
of types that are always whole are left out if their seen vector shows that the peer holds everything in them.
With `Compat.GO` the walk has the Go replica's two quirks, see `_as_go_walks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import BLOCK_MASK, GLOBAL_VECTOR_KEY, Id, split_vector_key
from culm_models.chotki.packets.parcels import block_vector, parcel_head, write_end
from culm_models.chotki.rdx import parse_vector, write_vector, xdiff
from culm_models.chotki.store import SEEN_TYPES, StoreSnapshot
from culm_models.chotki.sync.progress import Progress
from culm_models.chotki.tlv import LONG_HEADER_SIZE, SHORT_MAX, long_record, record
from culm_models.chotki.zip import U64_MAX

_TURN_BYTES: Final = 1 << 20
_TURN_FIELDS: Final = 16_384
_TURN_VECTORS: Final = 1_024
_SOME_BYTES: Final = 1_024
"""The cost of looking at a chunk of fields, in bytes of values."""
_LETTERS: Final = tuple(chr(code) for code in range(256))
_MERGED: Final = frozenset(b"FIRSTOY")
"""Types for which `xdiff` may send nothing; it sends all others whole."""


class BlockAhead(NamedTuple):
    """A block with changes for the peer. ``want``: the sources ahead, with the peer's progress in them."""

    block: Id
    vector: bytes
    want: dict[int, int]


def wanted(vector: bytes, peer: dict[int, int]) -> dict[int, int]:
    """Return the sources in which a block's vector is ahead of the peer, with its progress (0: nothing)."""
    return {src: peer.get(src, 0) for src, pro in parse_vector(vector).items() if pro > peer.get(src, -1)}


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """The parameters of a diff.

    `t`: the sender's T. `peer`: the peer's global vector. `max_record_bytes`: a D of several fields is never
    larger; by default no peer accepts more. `filtered`: the peer reads diffs that leave out what its vector
    covers. `handshake` encodes H with a vector. `announces`: the vector that the diff's own H claims, or None
    if the connection's first H claimed it, so that only the parts of a long diff need their own H.
    """

    t: Id
    peer: dict[int, int]
    filtered: bool
    max_parcel_bytes: int
    max_record_bytes: int
    cut_bytes: int | None
    handshake: Callable[[bytes], bytes]
    compat: Compat
    announces: bytes | None = None


class Diff:
    """The records of a diff, each made when it is requested: D packets and V, or several parts of them.

    The work between two records is bounded: if it takes longer, an empty record is yielded in between.
    """

    __slots__ = ("_ahead", "_done", "_done_bytes", "_ends", "_request", "_sizes", "_snapshot")

    def __init__(self, snapshot: StoreSnapshot, request: DiffRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._ahead: list[BlockAhead] = []
        self._ends: list[bytes] = []
        self._sizes: list[int] = []
        """The total bytes of the values of each block."""
        self._done = 0
        self._done_bytes = 0

    def progress(self) -> Progress:
        """Return the progress; bytes are those of the values of blocks, and unknown with `Compat.GO`."""
        return Progress(self._done, len(self._ahead), self._done_bytes, sum(self._sizes))

    def records(self) -> Iterator[bytes]:
        """Yield all records, V last; ignore empty ones."""
        yield from self._find_ahead()
        if self._request.compat is Compat.GO:
            yield from self._as_go_walks()
            return
        yield from self._measure()
        cut_bytes = self._request.cut_bytes
        yield from self._cut(sum(self._sizes) + 1 if cut_bytes is None else cut_bytes)

    def _find_ahead(self) -> Iterator[bytes]:
        """Find the blocks with changes for the peer, in the order of their keys."""
        for number, (key, vector) in enumerate(self._snapshot.vectors(), start=1):
            block = split_vector_key(key)
            if block is not None and (want := wanted(vector, self._request.peer)):
                self._ahead.append(BlockAhead(block, vector, want))
            if not number % _TURN_VECTORS:
                yield b""

    def _measure(self) -> Iterator[bytes]:
        """Measure the blocks before the first of them is sent."""
        looked_at = 0
        for ahead in self._ahead:
            size = 0
            for value_bytes in self._snapshot.sizes(*_bounds(ahead.block)):
                size += value_bytes
                looked_at += value_bytes + _SOME_BYTES
                if not value_bytes or looked_at > _TURN_BYTES:
                    looked_at = 0
                    yield b""
            self._sizes.append(size)

    def _cut(self, cut_bytes: int) -> Iterator[bytes]:
        """Yield parts of whole blocks, each a sync of its own; a single part needs no H if one was sent.

        The vector of a part claims nothing of a source in which a later part is ahead of the peer.
        """
        request, total = self._request, len(self._ahead)
        whole = request.announces
        if whole is None:
            whole = self._snapshot.get(GLOBAL_VECTOR_KEY) or b""
        start = 0
        while True:
            end, size = start, 0
            while end < total and size < cut_bytes:
                size += self._sizes[end]
                end += 1
            if start or end < total or request.announces is not None:
                later = {src for ahead in self._ahead[end:] for src in ahead.want}
                claimed = {src: pro for src, pro in parse_vector(whole).items() if src not in later}
                yield request.handshake(write_vector(claimed) if later else whole)
            yield from self._part(start, end)
            start = end
            if end == total:
                return

    def _part(self, start: int, end: int) -> Iterator[bytes]:
        for number in range(start, end):
            yield from self._block(self._ahead[number])
            self._done += 1
            self._done_bytes += self._sizes[number]
        yield self._end()

    def _end(self) -> bytes:
        ends, self._ends = self._ends, []
        return write_end(self._request.t, ends)

    def _parcel(self, block: Id, vector: bytes, parts: list[bytes]) -> bytes:
        """Encode a D of these parts and note its block for V."""
        self._ends.append(block_vector(block, vector))
        return long_record("D", *parts)

    def _block(self, ahead: BlockAhead) -> Iterator[bytes]:
        """Yield the D packets of one block."""
        block, vector, want = ahead
        limit = want.get(block.src)
        # Fields with at least this progress are sent whole.
        whole_from = U64_MAX if limit is None else limit + 1 if limit else 0
        max_parcel_bytes, base = self._request.max_parcel_bytes, block.pro
        limit_bytes = self._request.max_record_bytes
        pause, passed = min(max_parcel_bytes, _TURN_BYTES), 0
        head = parcel_head(self._request.t, block)
        parts, size = [head], LONG_HEADER_SIZE + len(head)
        start, end = _bounds(block)
        for key, value, seen in self._snapshot.fields(start):
            if key >= end:
                break
            if size > pause and len(parts) > 1:
                if size > max_parcel_bytes:
                    yield self._parcel(block, vector, parts)
                    parts, size = [head], LONG_HEADER_SIZE + len(head)
                else:
                    yield b""
                pause = min(max_parcel_bytes, size + _TURN_BYTES)
            pro = int.from_bytes(key[9:17], "big")
            sent = value
            if pro < whole_from:
                sent = self._difference(key[17], value, seen, want)
                if not sent:
                    passed += 1
                    if passed == _TURN_FIELDS:
                        passed = 0
                        yield b""
                    continue
            part = _field(pro - base, key[17], sent)
            if size + len(part) > limit_bytes and len(parts) > 1:
                yield self._parcel(block, vector, parts)
                parts, size = [head], LONG_HEADER_SIZE + len(head)
            parts.append(part)
            size += len(part)
        yield self._parcel(block, vector, parts)

    def _difference(self, code: int, value: bytes, seen: bytes | None, want: dict[int, int]) -> bytes:
        """Return what is sent of a field whose own source is not ahead; empty if nothing is sent."""
        if code in _MERGED:
            return xdiff(_LETTERS[code], value, want)
        if self._request.filtered and seen is not None and code in SEEN_TYPES:
            peer = self._request.peer
            if not any(pro > peer.get(src, -1) for src, pro in parse_vector(seen).items()):
                return b""
        return value

    def _as_go_walks(self) -> Iterator[bytes]:
        """Walk as the Go replica does.

        Quirk (a): a field whose id is the first of the next block is sent with its own block and with the
        previous one. Quirk (b): the iterator over the fields stays where the last D ended; if that is inside
        the next block, that block gets a D although it has nothing for the peer.
        """
        request = self._request
        fields = _FieldCursor(self._snapshot)
        for key, vector in self._snapshot.vectors():
            block = split_vector_key(key)
            if block is None:
                continue
            start, end = _bounds(block)
            want = wanted(vector, request.peer)
            if want:
                fields.seek(start)
            while want or (fields.key is not None and fields.key < end):
                head = parcel_head(request.t, block)
                parts, size, pause = [head], LONG_HEADER_SIZE + len(head), _TURN_BYTES
                while fields.key is not None and fields.key[:17] <= end:
                    if size > request.max_parcel_bytes and len(parts) > 1:
                        break
                    if size > pause:
                        pause = size + _TURN_BYTES
                        yield b""
                    src = int.from_bytes(fields.key[1:9], "big")
                    pro = int.from_bytes(fields.key[9:17], "big")
                    limit, code, sent = want.get(src), fields.key[17], fields.value
                    whole = limit is not None and (pro > limit or limit == 0)
                    if whole or (sent := xdiff(_LETTERS[code], sent, want)):
                        part = _field(pro - block.pro & U64_MAX, code, sent)
                        parts.append(part)
                        size += len(part)
                    fields.advance()
                yield self._parcel(block, vector, parts)
                if fields.key is None or fields.key >= end:
                    break
            self._done += bool(want)
        yield self._end()


class _FieldCursor:
    """A position among the fields of a snapshot: no field before the first `seek` and behind the last one."""

    __slots__ = ("_rest", "_snapshot", "key", "value")

    def __init__(self, snapshot: StoreSnapshot) -> None:
        self._snapshot = snapshot
        self._rest: Iterator[tuple[bytes, bytes, bytes | None]] = iter(())
        self.key: bytes | None = None
        self.value = b""

    def seek(self, start: bytes) -> None:
        """Go to the first field at or after a key."""
        self._rest = self._snapshot.fields(start)
        self.advance()

    def advance(self) -> None:
        """Go to the next field."""
        entry = next(self._rest, None)
        self.key, self.value = (None, b"") if entry is None else entry[:2]


def _bounds(block: Id) -> tuple[bytes, bytes]:
    """Return the prefixes of keys at which a block and the next block begin."""
    prefix = b"O" + block.src.to_bytes(8, "big")
    return prefix + block.pro.to_bytes(8, "big"), prefix + (block.pro + BLOCK_MASK + 1).to_bytes(8, "big")


def _field(offset: int, code: int, value: bytes) -> bytes:
    """Encode F and the value's record."""
    number = offset.to_bytes((offset.bit_length() + 7) >> 3, "little")
    if len(value) <= SHORT_MAX:
        return b"f%c%b%c%c%b" % (len(number), number, code | 0x20, len(value), value)
    return b"f%c%b%b" % (len(number), number, record(_LETTERS[code], value))
