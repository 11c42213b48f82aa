"""Strict reader of CARs (reference 1.3, R3): checks every hash and copies only the header and the CIDs."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from culm_models.dag.blocks.cid import SHA2_256, Cid, common_cid_at, read_cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, check_block
from culm_models.dag.blocks.varint import VARINT_BYTES_MAX, read_varint
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import (
    BlockTooLarge,
    CarHeaderMalformed,
    CarSectionMalformed,
    CarV2,
    CarVersionUnknown,
    DagError,
    VarintMalformed,
)

# Maximum size of a CID in bytes, except for identity CIDs, which may be as long as a block.
_CID_MAX: Final = 256
# A length of three bytes and a CID of a common kind.
_HEAD_SIZE: Final = 3 + 5 + 32
V2_PRAGMA: Final = bytes.fromhex("0aa16776657273696f6e02")
V2_HEAD_SIZE: Final = len(V2_PRAGMA) + 40
"""The pragma, and the characteristics (16 bytes), data offset, data size and index offset (8 bytes each)."""
_DATA: Final = struct.Struct("<QQ")
_DATA_AT: Final = len(V2_PRAGMA) + 16


class Section:
    """A block in a CAR, with its position in the file. Small, since there may be a million sections.

    `end` is the offset of the block's end in the bytes passed to the reader, not in the file.
    """

    __slots__ = ("_at", "_base", "_view", "cid", "end")

    def __init__(self, view: memoryview, base: int, cid: Cid, at: int, end: int) -> None:
        self._view = view
        self._base = base
        self.cid = cid
        self._at = at
        self.end = end

    @property
    def data(self) -> memoryview:
        """The bytes of the block."""
        return self._view[self._at : self.end]

    @property
    def offset(self) -> int:
        """Offset of the block in the file."""
        return self._base + self._at


@dataclass(frozen=True, slots=True)
class Car:
    """A whole CAR: its roots, and its sections in the order of the file, including repeated ones."""

    roots: tuple[Cid, ...]
    sections: tuple[Section, ...]


def read_car(
    data: bytes | memoryview,
    *,
    hashes: Collection[int] = DEFAULT_HASHES,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> Car:
    """Read and check a whole file. The sections' bytes are views into `data`.

    Raises `DagError` with the code of the first fault.
    """
    if len(data) > bounds.car:
        raise BlockTooLarge(f"a CAR over {bounds.car} bytes")
    view = memoryview(data)
    size, start = _header_size(view, bounds)
    if start + size > len(view):
        raise CarHeaderMalformed("the bytes end in the header")
    roots = _roots(bytes(view[start : start + size]), bounds)
    return Car(roots, tuple(_sections(view, start + size, hashes, bounds)))


def _sections(view: memoryview, at: int, hashes: Collection[int], bounds: DagBounds) -> list[Section]:
    sections: list[Section] = []
    length = len(view)
    while at < length:
        at = _take_common(view, at, 0, hashes, bounds, bounds.sections, sections)
        if at == length:
            break
        size, start = _section_size(view, at, bounds)
        end = start + size
        if end > length:
            raise CarSectionMalformed(f"the bytes end in the section at byte {at}")
        if len(sections) == bounds.sections:
            raise BlockTooLarge(f"a CAR with more than {bounds.sections} sections")
        sections.append(_section(view, start, end, 0, hashes, bounds))
        at = end
    return sections


def _take_common(
    view: memoryview,
    at: int,
    base: int,
    hashes: Collection[int],
    bounds: DagBounds,
    max_sections: int,
    sections: list[Section],
) -> int:
    """Add to `sections` from `at` on while they are complete, valid and of the common form.

    The common form has a length of two or three bytes and a CID with a common codec and sha2-256. Returns the
    offset of the first section that is not added; it may still be complete and valid.
    """
    length, limit = len(view), bounds.block
    whole = view.obj
    # Slices of bytes are cheaper than slices of a view.
    source = whole if isinstance(whole, bytes) and len(whole) == length else None
    for _ in range(max_sections - len(sections) if SHA2_256 in hashes else 0):
        head = bytes(view[at : at + _HEAD_SIZE]) if source is None else source[at : at + _HEAD_SIZE]
        if len(head) < _HEAD_SIZE or head[0] < 0x80 or not head[1]:
            break
        start, size = 2, head[0] & 0x7F | (head[1] & 0x7F) << 7
        if head[1] >= 0x80:
            if not 0 < head[2] < 0x80:
                break
            start, size = 3, size | head[2] << 14
        cid = common_cid_at(head, start)
        end = at + start + size
        if cid is None or end > length:
            break
        block_at = at + start + len(cid.raw)
        if not 0 <= end - block_at <= limit:
            break
        if not cid.raw.endswith(sha256(view[block_at:end]).digest()):
            break
        sections.append(Section(view, base, cid, block_at, end))
        at = end
    return at


def _section(
    view: memoryview, start: int, end: int, base: int, hashes: Collection[int], bounds: DagBounds
) -> Section:
    """Read and check the section in the bytes from `start` up to, not including, `end`."""
    cid, size = read_cid(view[start:end], 0)
    block = view[start + size : end]
    if len(block) > bounds.block:
        raise BlockTooLarge(f"a block over {bounds.block} bytes")
    check_block(cid, block, hashes)
    return Section(view, base, cid, start + size, end)


def _header_size(view: memoryview, bounds: DagBounds) -> tuple[int, int]:
    if not view:
        raise CarHeaderMalformed("no header")
    try:
        size, start = read_varint(view, 0)
    except VarintMalformed:
        if len(view) < VARINT_BYTES_MAX and all(byte >= 0x80 for byte in view):
            raise CarHeaderMalformed("the bytes end in the length of the header") from None
        raise
    if not size:
        raise CarHeaderMalformed("a header of length 0")
    if size > bounds.car_header:
        raise BlockTooLarge(f"a header over {bounds.car_header} bytes")
    if view[: len(V2_PRAGMA)] == V2_PRAGMA:
        raise CarV2("the pragma of CARv2")
    return size, start


def _section_size(view: memoryview, at: int, bounds: DagBounds) -> tuple[int, int]:
    try:
        size, start = read_varint(view, at)
    except VarintMalformed:
        if len(view) - at < VARINT_BYTES_MAX and all(byte >= 0x80 for byte in view[at:]):
            raise CarSectionMalformed("the bytes end in the length of a section") from None
        raise
    if not size:
        raise CarSectionMalformed(f"a section of length 0 at byte {at}")
    if size > 2 * bounds.block + _CID_MAX:
        raise BlockTooLarge(f"a section over {2 * bounds.block + _CID_MAX} bytes")
    return size, start


def _roots(header: bytes, bounds: DagBounds) -> tuple[Cid, ...]:
    try:
        value = decode_dag_cbor(header)
    except DagError as error:
        raise CarHeaderMalformed(f"the header is not canonical: {error}") from None
    if not isinstance(value, dict) or "version" not in value:
        raise CarHeaderMalformed("the header is not a map of roots and version")
    version = value["version"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise CarHeaderMalformed("the version is no integer")
    if version != 1:
        raise CarVersionUnknown(f"a CAR of version {version}")
    roots = value.get("roots")
    if len(value) != 2 or not isinstance(roots, list):
        raise CarHeaderMalformed("the header is not a map of roots and version")
    if not all(isinstance(root, Cid) for root in roots):
        raise CarHeaderMalformed("a root that is no link")
    if len(roots) > bounds.car_roots:
        raise BlockTooLarge(f"a CAR with more than {bounds.car_roots} roots")
    return tuple(roots)


class CarStream:
    """Reader of a CAR that arrives in pieces split anywhere; it returns each section once it is complete.

    The results do not depend on where the pieces are split. At most one unfinished section is buffered.
    """

    __slots__ = ("_bounds", "_buffer", "_count", "_error", "_hashes", "_needed", "_taken", "roots")

    def __init__(
        self, *, hashes: Collection[int] = DEFAULT_HASHES, bounds: DagBounds = DEFAULT_BOUNDS
    ) -> None:
        self._hashes = hashes
        self._bounds = bounds
        self._buffer = bytearray()
        # Bytes that the next step needs. Parsing again before they have arrived would be wasted work.
        self._needed = 1
        self._taken = 0
        self._count = 0
        self._error: DagError | None = None
        self.roots: tuple[Cid, ...] | None = None

    def feed(self, data: bytes | memoryview) -> list[Section]:
        """Add the next bytes. Returns the sections that are now complete.

        Raises `DagError` for a fault that no new section precedes. Otherwise the sections before the fault
        are returned and the next call raises it. After an error, every call raises it again.
        """
        if self._error is not None:
            raise self._error
        self._buffer += data
        if len(self._buffer) < self._needed:
            return []
        sections: list[Section] = []
        try:
            # The returned sections keep these bytes alive as views.
            self._take(bytes(self._buffer), sections)
        except DagError as error:
            self._error = error
            self._buffer = bytearray()
            if not sections:
                raise
        return sections

    def finish(self) -> None:
        """Mark the end of the file. Raises the `DagError` that a whole file ending here is refused with."""
        if self._error is not None:
            raise self._error
        if self.roots is None:
            read_car(bytes(self._buffer), hashes=self._hashes, bounds=self._bounds)
            raise CarHeaderMalformed("the bytes end in the header")
        if self._buffer:
            _section_size(memoryview(self._buffer), 0, self._bounds)
            raise CarSectionMalformed("the bytes end in a section")

    def _take(self, data: bytes, sections: list[Section]) -> None:
        view, at = memoryview(data), 0
        while at < len(view):
            if self.roots is not None:
                at = self._take_common(view, at, sections)
            self._needed = 1
            if at == len(view):
                break
            if not _varint_is_there(view, at):
                break
            if self.roots is None:
                size, start = _header_size(view, self._bounds)
                self._require_within_limit(start + size)
                self._needed = start + size
                if start + size > len(view):
                    break
                self.roots = _roots(data[start : start + size], self._bounds)
            else:
                size, start = _section_size(view, at, self._bounds)
                self._require_within_limit(start + size)
                self._needed = start + size - at
                if start + size > len(view):
                    break
                self._count += 1
                if self._count > self._bounds.sections:
                    raise BlockTooLarge(f"a CAR with more than {self._bounds.sections} sections")
                sections.append(_section(view, start, start + size, self._taken, self._hashes, self._bounds))
            at = start + size
            self._needed = 1
        self._taken += at
        self._buffer = bytearray(view[at:])

    def _take_common(self, view: memoryview, at: int, sections: list[Section]) -> int:
        before = len(sections)
        max_sections = before + self._bounds.sections - self._count
        # Sections beyond the maximum size of a file are left for the caller's loop, which refuses them.
        within_limit = view[: max(at, self._bounds.car - self._taken)]
        at = _take_common(within_limit, at, self._taken, self._hashes, self._bounds, max_sections, sections)
        self._count += len(sections) - before
        return at

    def _require_within_limit(self, end: int) -> None:
        if self._taken + end > self._bounds.car:
            raise BlockTooLarge(f"a CAR over {self._bounds.car} bytes")


def _varint_is_there(view: memoryview, at: int) -> bool:
    """Whether enough bytes are present to read a varint or to see that it is malformed."""
    head = view[at : at + VARINT_BYTES_MAX]
    return len(head) == VARINT_BYTES_MAX or any(byte < 0x80 for byte in head)


def find_payload(head: bytes, file_size: int) -> tuple[int, int]:
    """Find the CARv1 in a file from the file's first `V2_HEAD_SIZE` bytes.

    Returns the offsets of its begin and end. A file that does not begin with the pragma of CARv2 is a CARv1
    as a whole. The index and the characteristics of a CARv2 are neither trusted nor needed. Raises
    `CarHeaderMalformed`.
    """
    if not head.startswith(V2_PRAGMA):
        return 0, file_size
    if len(head) < V2_HEAD_SIZE:
        raise CarHeaderMalformed("the bytes end in the header of CARv2")
    offset, size = _DATA.unpack_from(head, _DATA_AT)
    if offset < V2_HEAD_SIZE or offset + size > file_size:
        raise CarHeaderMalformed("a CARv2 whose data is not in the file: it may be cut short or unfinished")
    return offset, offset + size
