"""LZFoo, the compression of Bamboo Point-2-Point: literals, and copies of earlier bytes (reference 1.6).

An element is a tag with its length, followed by literal bytes or a copy's offset.

The tag's highest bit is set for a copy. Its other bits are the length if they are below 120; otherwise they
encode how many bytes of length follow, 1 to 8, big-endian. An offset is a VarU64.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from culm_models import varu64
from culm_models.errors import ModelError


class LzfooError(ModelError, code="lzfoo"):
    """Malformed LZFoo, or output that is not as announced."""


class LzfooOffset(LzfooError, code="lzfoo.offset"):
    """A copy from before the beginning or beyond the window, or with the offset 0."""


class LzfooTruncated(LzfooError, code="lzfoo.truncated"):
    """The bytes end within an element."""


class LzfooLength(LzfooError, code="lzfoo.length"):
    """The output is longer or shorter than announced."""


COPY: Final = 0x80
"""Bit of a tag that marks a copy."""
INLINE_LENGTHS: Final = 120
"""Lengths below this are stored in the tag."""
VARU64_INLINE: Final = 248
"""Offsets below this take one byte."""
OFFSET_OF_TWO: Final = 249
"""First byte of an offset of 256 to 65,535; two bytes follow."""


def literals(data: bytes) -> bytes:
    """Encode bytes as a single literal, without compression."""
    return _head(0, len(data)) + data if data else b""


def copy(length: int, offset: int) -> bytes:
    """Encode a copy of `length` bytes from `offset` bytes back."""
    return _head(COPY, length) + varu64.encode(offset)


def _head(kind: int, length: int) -> bytes:
    if length < INLINE_LENGTHS:
        return bytes((kind | length,))
    size = (length.bit_length() + 7) // 8
    return bytes((kind | INLINE_LENGTHS - 1 + size,)) + length.to_bytes(size, "big")


def read_element(data: bytes, at: int) -> tuple[int, int, int | None] | None:
    """Read the element whose tag is at `at`. Returns None if bytes are missing.

    Returns the offset of the end of its head, its length, and the offset of a copy, or None for a literal,
    whose bytes follow.
    """
    tag = data[at]
    at += 1
    length = tag & ~COPY
    if length >= INLINE_LENGTHS:
        end = at + length - INLINE_LENGTHS + 1
        if end > len(data):
            return None
        length, at = int.from_bytes(data[at:end], "big"), end
    if not tag & COPY:
        return at, length, None
    try:
        offset, size = varu64.decode(data, at, canonical=False)
    except varu64.VarU64TruncatedError:
        return None
    return at + size, length, offset


# LZ4 has literals and copies, too, and its output can be read in a few steps per copy. Its thorough search
# costs little and finds more than the default search, which makes up for LZFoo's longer offsets.

try:
    import lz4.block as lz4_block
except ModuleNotFoundError:  # Then nothing is compressed, which every other end accepts.
    lz4_block = None

REACH_BYTES: Final = 65_535
"""LZ4's own window in bytes: no copy reaches back further."""
_SEARCH_LEVEL: Final = 4
"""Level of LZ4's search. Higher levels take twice as long to save two per cent."""
_COMPRESSIBLE_BYTES: Final = 16
"""Minimum size for compression, as LZ4 finds nothing in shorter data."""
_SEED_BYTES: Final = 2_048
"""Size of history that is collected at the beginning even if the data does not get shorter."""
_SHORT_BYTES: Final = 1_024
_SHORT_REACH_BYTES: Final = 8_192
"""Range of the search for short data. A longer range would cost more than everything else."""
_PIECE_MIN: Final = 1_024
_NEAR_COPY_MIN: Final = 4
"""Minimum length of a copy with an offset of one byte, which takes two bytes."""
_FAR_COPY_MIN: Final = 7
"""Minimum length of a copy with an offset of three bytes, which takes four bytes.

Saving a byte or two is not worth the other end's time.
"""
_BETWEEN_LITERALS: Final = 2
"""Additional length required of a copy between two literals: without it, these are one element."""
_LZ4_COPY_MIN: Final = 4
_LZ4_INLINE_MAX: Final = 15
_FAR_COPY: Final = Struct(">BBH")


class Compressor:
    """Compresses one direction of a connection.

    `history` is the data that the other end has received before.
    """

    __slots__ = ("_history", "_piece", "_reach")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._reach = min(window, REACH_BYTES)
        # LZ4 does not prefer near copies to far ones. In pieces of a small window's size, few are too far.
        self._piece = max(self._reach, _PIECE_MIN)
        self._history = history[-self._reach :] if window else b""

    def compress(self, data: bytes) -> bytes | None:
        """Compress `data`. Returns None, and does not add it to the history, if that makes it no shorter.

        The first small payloads are accepted even if they get a few bytes longer, so that similar later ones
        find copies in them.
        """
        reach = self._reach
        searched = reach if len(data) > _SHORT_BYTES else min(reach, _SHORT_REACH_BYTES)
        if lz4_block is None or not reach or len(data) < _COMPRESSIBLE_BYTES:
            return None
        shared = self._history + data
        output = bytearray()
        for begin in range(len(self._history), len(shared), self._piece):
            block = lz4_block.compress(
                shared[begin : begin + self._piece],
                mode="high_compression",
                compression=_SEARCH_LEVEL,
                store_size=False,
                dict=shared[max(begin - searched, 0) : begin],
            )
            self._rewrite(block, shared, begin, output)
        if len(output) >= len(data):
            if len(self._history) >= min(reach, _SEED_BYTES) or len(data) > _SEED_BYTES:
                return None
            output = bytearray(literals(data))
        self._history = shared[-reach:]
        return bytes(output)

    def _rewrite(self, block: bytes, shared: bytes, begin: int, output: bytearray) -> None:
        """Append an LZ4 block, which encodes the bytes from `begin` on, to `output` as LZFoo.

        A copy that reaches back too far, or that saves too little, becomes part of a literal.
        """
        reach = self._reach
        pack_far = _FAR_COPY.pack
        at, end = 0, len(block)
        position = literal = begin
        while True:
            token = block[at]
            at += 1
            length = token >> 4
            if length == _LZ4_INLINE_MAX:
                more = 255
                while more == 255:
                    more = block[at]
                    at += 1
                    length += more
            at += length
            position += length
            if at >= end:
                break
            offset = block[at] | block[at + 1] << 8
            at += 2
            length = (token & _LZ4_INLINE_MAX) + _LZ4_COPY_MIN
            if length == _LZ4_INLINE_MAX + _LZ4_COPY_MIN:
                more = 255
                while more == 255:
                    more = block[at]
                    at += 1
                    length += more
            source = position
            position += length
            shortest = _NEAR_COPY_MIN if offset < VARU64_INLINE else _FAR_COPY_MIN
            if source > literal and block[at] > _LZ4_INLINE_MAX:
                # The copy is between two literals.
                shortest += _BETWEEN_LITERALS
            if offset > reach or length < shortest:
                continue
            run = source - literal
            if run:
                if run < INLINE_LENGTHS:
                    output.append(run)
                    output += shared[literal:source]
                else:
                    output += literals(shared[literal:source])
            literal = position
            if length >= INLINE_LENGTHS or VARU64_INLINE <= offset < 256:
                output += copy(length, offset)
            elif offset < VARU64_INLINE:
                output.append(COPY | length)
                output.append(offset)
            else:
                output += pack_far(COPY | length, OFFSET_OF_TWO, offset)
        output += literals(shared[literal:position])


# Twenty bytes may expand to 2**63. The output is therefore returned in pieces, and never exceeds the
# announced size.

PIECE_BYTES: Final = 262_144
"""Size of a piece of output. A piece exceeds it by at most as many bytes again plus the bytes fed."""
OUTPUT_MAX: Final = 67_108_864
"""Maximum output of `decompress`, whatever was announced. Larger output is taken in pieces."""
_LONG_COPY: Final = COPY | INLINE_LENGTHS
_COMMON_COPY_BYTES: Final = 4
"""Size of the longest encoding of a common copy."""
_COMMON_RUN_BYTES: Final = 4_096
"""Bytes read in one run of the fast loop; common copies in them expand to less than a piece."""


def decompress(data: bytes, *, window: int, history: bytes = b"", length: int | None = None) -> bytes:
    """Decompress complete elements. Raises `LzfooError`, also if the output does not have `length` bytes."""
    decompressor = Decompressor(window, history)
    limit = OUTPUT_MAX if length is None else min(length, OUTPUT_MAX)
    output = b"".join(decompressor.feed(data, limit))
    decompressor.end()
    if length is not None and len(output) != length:
        raise LzfooLength(f"{len(output)} bytes come out, not {length}")
    return output


class Decompressor:
    """Decompresses one direction of a connection. `history` is the earlier output that the window covers.

    It holds at least the last `window` bytes of output, and at most twice as many plus two pieces.
    """

    __slots__ = ("_copy_left", "_literal_left", "_offset", "_output", "_pending", "_window")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._window = window
        self._output = bytearray(history[-window:] if window else b"")
        self._pending = b""
        self._literal_left = 0
        self._copy_left = 0
        self._offset = 0

    def feed(self, chunk: bytes, max_bytes: int) -> Iterator[bytes]:
        """Decompress further bytes.

        Yields the output in pieces, all of which must be taken before the next call. Raises `LzfooOffset`,
        and `LzfooLength` as soon as the output is certain to exceed `max_bytes`.
        """
        data = self._pending + chunk
        self._pending = b""
        output, at, begin = self._output, 0, len(self._output)
        while True:
            if self._literal_left:
                if at >= len(data):
                    break
                end = min(at + self._literal_left, len(data))
                output += data[at:end]
                self._literal_left -= end - at
                at = end
            elif self._copy_left:
                self._copy(min(self._copy_left, max(begin + PIECE_BYTES - len(output), 1)))
            else:
                at = self._read_common(data, at)
                left = begin + max_bytes - len(output)
                if left >= 0 and at < len(data):
                    element = read_element(data, at)
                    if element is None:
                        self._pending = data[at:]
                        break
                    at = element[0]
                    left -= self._begin(*element[1:])
                if left < 0:
                    raise LzfooLength(f"more bytes come out than the {max_bytes} that were left")
                if at >= len(data) and not self._copy_left:
                    break
            if len(output) - begin >= PIECE_BYTES:
                max_bytes -= len(output) - begin
                yield bytes(output[begin:])
                begin = self._forget()
        if len(output) > begin:
            yield bytes(output[begin:])
            self._forget()

    def end(self) -> None:
        """Mark the end of the bytes. Raises `LzfooTruncated` if they end within an element."""
        if self._pending or self._literal_left:
            raise LzfooTruncated("the bytes end within an element")

    def _read_common(self, data: bytes, at: int) -> int:
        """Process elements of the common kinds. Returns the offset of the first other or incomplete element.

        Common elements have lengths below 120, and offsets of one or three bytes within the history.
        Everything else, and every error, is left to the caller, which checks single elements: this loop
        determines the speed.
        """
        output = self._output
        reach = min(self._window, len(output))
        last = min(len(data) - _COMMON_COPY_BYTES, at + _COMMON_RUN_BYTES)
        while at <= last:
            tag = data[at]
            if tag < INLINE_LENGTHS:
                body = at + 1
                behind = body + tag
                if behind > last:
                    break
                output += data[body:behind]
                at = behind
                # Nearly always, a copy follows a literal.
                tag = data[at]
            if not COPY <= tag < _LONG_COPY:
                if tag < INLINE_LENGTHS:
                    continue
                break
            offset = data[at + 1]
            if offset == OFFSET_OF_TWO:
                offset = data[at + 2] << 8 | data[at + 3]
                behind = at + 4
            elif offset < VARU64_INLINE:
                behind = at + 2
            else:
                break
            if not 0 < offset <= reach:
                break
            source = len(output) - offset
            length = tag - COPY
            if length <= offset:
                output += output[source : source + length]
            else:
                output += (output[source:] * (length // offset + 1))[:length]
            at = behind
        return at

    def _begin(self, length: int, offset: int | None) -> int:
        """Begin an element. Returns its length. Raises `LzfooOffset`."""
        if offset is None:
            self._literal_left = length
        elif not 0 < offset <= min(self._window, len(self._output)):
            raise LzfooOffset(f"a copy from {offset} bytes back is outside of the window or the history")
        else:
            self._copy_left, self._offset = length, offset
        return length

    def _copy(self, length: int) -> None:
        """Output `length` bytes of the current copy. Source and output may overlap."""
        output, offset = self._output, self._offset
        source = len(output) - offset
        if length <= offset:
            output += output[source : source + length]
        else:
            output += (output[source:] * (length // offset + 1))[:length]
        self._copy_left -= length

    def _forget(self) -> int:
        """Drop output that no copy can reach, if there is much. Returns the offset of further output."""
        output = self._output
        if len(output) > 2 * self._window + PIECE_BYTES:
            del output[: len(output) - self._window]
        return len(output)
