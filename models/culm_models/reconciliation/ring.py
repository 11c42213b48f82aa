"""The order of bounds as a batch walks them: from its lower bound up, round over the end, and back.

A position is (0, bound) from the origin on, (1, bound) past the end of the order, and `END` where the walk
is back at the origin. Positions of one origin compare as tuples.
"""

from typing import Any, Final, TypeAlias

Position: TypeAlias = tuple[Any, ...]

END: Final[Position] = (2,)


def start_of(origin: Any) -> Position:
    """Where a walk from ``origin`` begins."""
    return (0, origin)


def position(bound: Any, origin: Any) -> Position:
    """Where the range that ends at ``bound`` ends, on a walk from ``origin``."""
    if origin < bound:
        return (0, bound)
    if bound < origin:
        return (1, bound)
    return END
