"""Compression to LZFoo: LZ4's C library finds what repeats, and its copies are written down as LZFoo's (R56).

LZ4 knows literals and copies too, and its bytes can be read in a few steps a copy. Its thorough search costs
little and finds more than its default one, which makes up for LZFoo's longer offsets.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from culm_models.lzfoo.elements import COPY, INLINE_LENGTHS, OFFSET_OF_TWO, VARU64_INLINE, copy, literals

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
