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
    digest = blake2b(digest_size=_DRAW_BYTES)
    for part in (seed, what.encode(), *(str(part).encode() for part in parts)):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


def draw_below(bound: int, seed: bytes, what: str, *parts: str | int) -> int:
    """A draw from 0 to `bound` - 1; 0 where the bound is 1 or less."""
    return draw(seed, what, *parts) * bound // _RANGE if bound > 1 else 0
