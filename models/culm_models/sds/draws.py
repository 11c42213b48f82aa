"""Everything that looks random in a channel: draws that follow from a seed and from what they are for.

The same channel, replayed from the same inputs, draws the same numbers, so it sends the same bytes at the
same times. Nothing of a draw can be told from outside without the seed.
"""

from hashlib import blake2b
from typing import Final

_DRAW_BYTES: Final = 8
_RANGE: Final = 1 << (8 * _DRAW_BYTES)


def draw(seed: bytes, what: str, *parts: str | int) -> int:
    """A number from 0 to 2**64 - 1 for one purpose (`what`) and one occasion (`parts`: ids, counts)."""
    given = [seed, what.encode()]
    given += [str(part).encode() for part in parts]
    told = b"".join([len(part).to_bytes(8, "big") + part for part in given])
    return int.from_bytes(blake2b(told, digest_size=_DRAW_BYTES).digest(), "big")


def draw_below(bound: int, seed: bytes, what: str, *parts: str | int) -> int:
    """A draw from 0 to `bound` - 1; 0 where the bound is 1 or less."""
    return draw(seed, what, *parts) * bound // _RANGE if bound > 1 else 0
