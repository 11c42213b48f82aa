"""The rules by which a side splits a range in which the two sets differ (rbsr.md, 1.3 and 3.2).

`upstream` is what range-reconcile 1.0.2 does. Its chunks are all of one size but the last, and a range goes
as items when its chunks would be small enough: the leaf size is threshold times division. `even` sends at
most threshold items, and otherwise parts that differ by one at most; it opens with fingerprints alone, so
that equal sets send no item at all. Either understands what the other says.
"""

from typing import Final, Literal, TypeAlias

Rule: TypeAlias = Literal["upstream", "even"]

RULES: Final[tuple[Rule, ...]] = ("upstream", "even")


def is_leaf(rule: Rule, size: int, threshold: int, division: int) -> bool:
    """Whether a range of this many own items is sent as items."""
    if size <= threshold:
        return True
    return rule == "upstream" and -(-size // division) <= threshold


def cut(rule: Rule, size: int, division: int) -> list[int]:
    """Where a range of ``size`` items, 1 or more, is cut: the offsets at which its parts begin, 0 first."""
    if rule == "upstream":
        return list(range(0, size, -(-size // division)))
    parts = min(size, division)
    return [index * size // parts for index in range(parts)]
