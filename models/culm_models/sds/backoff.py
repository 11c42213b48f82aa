"""How long to wait before trying again: doubled from try to try, bounded, spread by a draw.

The first wait is exactly the stated period. Of later ones up to a quarter is taken off by the draw, so that
those who lost the same message at the same time do not repeat themselves together; none is ever longer than
its nominal length, so whoever acts at nominal times finds everything due.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

Draw: TypeAlias = Callable[[str, str, int], int]
"""An even number below 2**64 for (what it decides, message id, count): the same for the same arguments."""

_DRAW_BITS: Final = 64


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
