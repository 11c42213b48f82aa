"""How a side splits ranges and answers, and what a remote can make it do at most (rbsr.md, 1.3, 3.2 and 4.5).

`upstream` is what range-reconcile 1.0.2 does. Its chunks are all of one size but the last, and a range goes
as items when its chunks would be small enough: the leaf size is threshold times division. `even` sends at
most threshold items, and otherwise parts that differ by one at most; it opens with fingerprints alone, so
that equal sets send no item at all. Either understands what the other says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from culm_models.reconciliation.ordered_set import Span

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


Reply: TypeAlias = Callable[[Sequence[Any], Span], Sequence[Any]]
"""From the items that the remote has in a range, and our span of it, to the items that we show."""

Place: TypeAlias = Callable[[Sequence[int], Sequence[int]], Sequence[int]]
"""From ranks where ranges are cut, and how far each may be moved, to how far it is (back: below 0)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How one side answers; the other may have it differently."""

    rule: Rule
    threshold: int
    """A range of so many own items is sent as items."""
    division: int
    """Into how many parts other ranges are cut."""
    absorb: bool
    reply: Reply | None
    place: Place | None = None

    @property
    def brief(self) -> bool:
        """Whether ranges that end for both are said together; the published algorithm ends each by itself."""
        return self.rule == "even" and not self.absorb

    def __post_init__(self) -> None:
        assert self.rule in RULES
        assert self.threshold >= 1, "a single item can only be sent"
        assert self.division >= 2, "a range in one part is the same range again"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one session. Beyond any of them it ends with a typed error."""

    slack_batches: int = 8
    """Batches of both sides beyond 2 + 2 * ceil(log of our item count to the base of our division)."""
    messages_per_batch: int = 1 << 21
    messages_per_item: int = 4
    """Or so many in one batch for each item that we hold, where that is more: all may differ."""
    items_per_run: int = 1 << 20
    """Items of one range that the remote shows."""
    slack_items: int = 4_096
    """Items that we show beyond twice what we hold."""
