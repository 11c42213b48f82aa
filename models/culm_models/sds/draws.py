"""Everything that looks random in a channel: draws that follow from a seed and from what they are for.

The same channel, replayed from the same inputs, draws the same numbers, so it sends the same bytes at the
same times. Nothing of a draw can be recognised from outside without the seed.

Before trying again one waits ever longer: doubled from try to try, bounded, spread by a draw. The first wait
is exactly the stated period. Of later ones up to a quarter is taken off by the draw, so that those who lost
the same message at the same time do not repeat themselves together; none is ever longer than its nominal
length, so whoever acts at nominal times finds everything due.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, TypeAlias

_DRAW_BYTES: Final = 8
_DRAW_BITS: Final = 8 * _DRAW_BYTES

Draw: TypeAlias = Callable[[str, str, int], int]
"""An even number below 2**64 for (what it decides, message id, count): always one for the same arguments."""


def draw(seed: bytes, what: str, *parts: str | int) -> int:
    """A number from 0 to 2**64 - 1 for one purpose (`what`) and one occasion (`parts`: ids, counts)."""
    given = [seed, what.encode()]
    given += [str(part).encode() for part in parts]
    named = b"".join([len(part).to_bytes(8, "big") + part for part in given])
    return int.from_bytes(blake2b(named, digest_size=_DRAW_BYTES).digest(), "big")


def draw_below(bound: int, seed: bytes, what: str, *parts: str | int) -> int:
    """A draw from 0 to `bound` - 1; 0 where the bound is 1 or less."""
    return share(bound, draw(seed, what, *parts)) if bound > 1 else 0


def wait_ms(period_ms: int, tries: int, most_ms: int, drawn: int) -> int:
    """The wait after `tries` tries that brought nothing: `period_ms`, doubled each time, up to `most_ms`.

    `drawn` is an even number below 2**64; it counts for nothing when `tries` is 0.
    """
    # Shifting by more would only make a number that the bound cuts off.
    nominal = min(period_ms << min(tries, 40), most_ms)
    return nominal if tries == 0 else nominal - share(nominal // 4 + 1, drawn)


def share(limit: int, drawn: int) -> int:
    """An even number from 0 to `limit` - 1, made of one below 2**64 (0 when `limit` is 0)."""
    return limit * drawn >> _DRAW_BITS


def early_share(limit: int, group: int, drawn: int) -> int:
    """A number from 0 to `limit`, made of one below 2**64, that few of a group draw near `limit`.

    Of each doubling of `group` an equal part of the range is taken off: about one of the group draws a number
    at the far end, two lie in the part before it, four in the one before that, and half at the near end.
    """
    # The binary logarithm of 2**64 / drawn, in 1,024ths: exact at powers of two, straight lines between.
    drawn |= 1
    zeros = _DRAW_BITS - drawn.bit_length()
    logarithm = (zeros << 10) + (((1 << _DRAW_BITS) - (drawn << zeros)) >> (_DRAW_BITS - 11))
    return min(limit, limit * logarithm // ((group - 1).bit_length() << 10))
