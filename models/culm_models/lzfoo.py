"""LZFoo, the compression of Bamboo Point-2-Point: literals, and copies of what came before (reference 1.6).

An element is a tag with its length, then literal bytes or a copy's offset.

The tag's highest bit tells a copy from a literal. Its other bits are the length below 120; from there on they
say how many bytes of length follow, 1 to 8, big-endian. An offset is a VarU64.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from culm_models import varu64
from culm_models.errors import ModelError


class LzfooError(ModelError, code="lzfoo"):
    """Bytes that are no LZFoo, or not the one that was announced."""


class LzfooOffset(LzfooError, code="lzfoo.offset"):
    """A copy from before the beginning, from beyond the window, or from nowhere."""


class LzfooTruncated(LzfooError, code="lzfoo.truncated"):
    """The bytes end within an element."""


class LzfooLength(LzfooError, code="lzfoo.length"):
    """The output is longer or shorter than announced."""


COPY: Final = 0x80
"""The bit of a tag that makes it a copy's."""
INLINE_LENGTHS: Final = 120
"""Shorter lengths stand in the tag."""
VARU64_INLINE: Final = 248
"""Smaller offsets are one byte."""
OFFSET_OF_TWO: Final = 249
"""The first byte of an offset of 256 to 65,535: two bytes follow."""


def literals(data: bytes) -> bytes:
    """Bytes as a literal alone: the plainest LZFoo that stands for them."""
    return _head(0, len(data)) + data if data else b""


def copy(length: int, offset: int) -> bytes:
    """A copy of `length` bytes from `offset` bytes back."""
    return _head(COPY, length) + varu64.encode(offset)


def _head(kind: int, length: int) -> bytes:
    if length < INLINE_LENGTHS:
        return bytes((kind | length,))
    size = (length.bit_length() + 7) // 8
    return bytes((kind | INLINE_LENGTHS - 1 + size,)) + length.to_bytes(size, "big")


def read_element(data: bytes, at: int) -> tuple[int, int, int | None] | None:
    """The element whose tag stands at `at`; None where bytes are missing.

    Returns where its head ends, its length, and a copy's offset (None: a literal, whose bytes follow).
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


# LZ4 knows literals and copies too, and its bytes can be read in a few steps a copy. Its thorough search
# costs little and finds more than its default one, which makes up for LZFoo's longer offsets.

try:
    import lz4.block as lz4_block
except ModuleNotFoundError:  # Nothing is compressed then, which every other end understands.
    lz4_block = None

REACH_BYTES: Final = 65_535
"""LZ4's own window: no copy reaches back further."""
_SEARCH_LEVEL: Final = 4
"""Beyond this LZ4 searches twice as long for two per cent."""
_COMPRESSIBLE_BYTES: Final = 16
"""LZ4 finds nothing in less."""
_SEED_BYTES: Final = 2_048
"""So much is remembered first, whether it gets shorter or not."""
_SHORT_BYTES: Final = 1_024
_SHORT_REACH_BYTES: Final = 8_192
"""Nothing further back is searched for short data: it costs more than all else."""
_PIECE_MIN: Final = 1_024
_NEAR_COPY_MIN: Final = 4
"""A copy with an offset of one byte takes two bytes."""
_FAR_COPY_MIN: Final = 7
"""One with an offset of three bytes takes four. To save a byte or two is not worth the other end's time."""
_BETWEEN_LITERALS: Final = 2
"""So many more bytes where the literals around it would be one: that saves a tag, and two elements."""
_LZ4_COPY_MIN: Final = 4
_LZ4_INLINE_MAX: Final = 15
_FAR_COPY: Final = Struct(">BBH")


class Compressor:
    """One direction of a connection; `history` is what the other end has from it already."""

    __slots__ = ("_history", "_piece", "_reach")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._reach = min(window, REACH_BYTES)
        # LZ4 prefers far copies as much as near ones. With pieces of a small window's size few are too far.
        self._piece = max(self._reach, _PIECE_MIN)
        self._history = history[-self._reach :] if window else b""

    def compress(self, data: bytes) -> bytes | None:
        """Fewer bytes that stand for `data`; None where there are none: then nothing is remembered.

        Of the first small ones a few bytes more are put up with: what is alike later is found in them.
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
        """Write an LZ4 block, which stands for the bytes from `begin` on, as LZFoo.

        A copy that reaches back too far, or that does not pay, becomes part of a literal.
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
                # A literal comes before it and one behind.
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


# Twenty bytes may stand for 2**63: what comes out is handed over in pieces, and never more than was
# announced.

PIECE_BYTES: Final = 262_144
"""A piece exceeds this by no more than as many bytes again, and what was fed."""
OUTPUT_MAX: Final = 67_108_864
"""No more comes out of `decompress`, whatever was announced: who expects more takes it in pieces."""
_LONG_COPY: Final = COPY | INLINE_LENGTHS
_COMMON_COPY_BYTES: Final = 4
"""What the longest copy of the common kind takes."""
_COMMON_RUN_BYTES: Final = 4_096
"""Copies in so many bytes stand for less than a piece."""


def decompress(data: bytes, *, window: int, history: bytes = b"", length: int | None = None) -> bytes:
    """What whole elements stand for: `length` bytes if it is given. Raises `LzfooError`."""
    decompressor = Decompressor(window, history)
    most = OUTPUT_MAX if length is None else min(length, OUTPUT_MAX)
    output = b"".join(decompressor.feed(data, most))
    decompressor.end()
    if length is not None and len(output) != length:
        raise LzfooLength(f"{len(output)} bytes come out, not {length}")
    return output


class Decompressor:
    """One direction of a connection; `history` is what came out before, as far as the window needs it.

    It holds the last `window` bytes that came out, and no more than as many again and two pieces.
    """

    __slots__ = ("_copy_left", "_literal_left", "_offset", "_output", "_pending", "_window")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._window = window
        self._output = bytearray(history[-window:] if window else b"")
        self._pending = b""
        self._literal_left = 0
        self._copy_left = 0
        self._offset = 0

    def feed(self, chunk: bytes, most: int) -> Iterator[bytes]:
        """What comes out of further bytes, in pieces; all of them must be taken before the next bytes.

        Raises `LzfooOffset`, and `LzfooLength` as soon as it is certain that more than `most` bytes come out.
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
                left = begin + most - len(output)
                if left >= 0 and at < len(data):
                    element = read_element(data, at)
                    if element is None:
                        self._pending = data[at:]
                        break
                    at = element[0]
                    left -= self._begin(*element[1:])
                if left < 0:
                    raise LzfooLength(f"more bytes come out than the {most} that were left")
                if at >= len(data) and not self._copy_left:
                    break
            if len(output) - begin >= PIECE_BYTES:
                most -= len(output) - begin
                yield bytes(output[begin:])
                begin = self._forget()
        if len(output) > begin:
            yield bytes(output[begin:])
            self._forget()

    def end(self) -> None:
        """No bytes follow. Raises `LzfooTruncated` within an element."""
        if self._pending or self._literal_left:
            raise LzfooTruncated("the bytes end within an element")

    def _read_common(self, data: bytes, at: int) -> int:
        """Take elements of the common kinds; returns where one begins that is not, or that is not all there.

        Common are lengths below 120, and offsets of one or three bytes within what is remembered already. All
        else, and every error, is left to who takes one element with all care: this loop decides the speed.
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
                # A copy follows a literal nearly always.
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
        """An element begins; returns its length."""
        if offset is None:
            self._literal_left = length
        elif not 0 < offset <= min(self._window, len(self._output)):
            raise LzfooOffset(f"a copy from {offset} bytes back is outside of the window or the history")
        else:
            self._copy_left, self._offset = length, offset
        return length

    def _copy(self, length: int) -> None:
        """So much of the copy at hand; what is copied may itself be copied from (overlap)."""
        output, offset = self._output, self._offset
        source = len(output) - offset
        if length <= offset:
            output += output[source : source + length]
        else:
            output += (output[source:] * (length // offset + 1))[:length]
        self._copy_left -= length

    def _forget(self) -> int:
        """Drop what no copy can reach, now and then; returns where the output of the future begins."""
        output = self._output
        if len(output) > 2 * self._window + PIECE_BYTES:
            del output[: len(output) - self._window]
        return len(output)
