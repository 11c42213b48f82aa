"""Rules for splitting and answering ranges, and limits on what a remote can cause (rbsr.md, 1.3, 3.2, 4.5).

`upstream` is the rule of range-reconcile 1.0.2. All its parts except the last have the same size, and a range
is sent as items if its parts would be small enough: the leaf size is threshold times division. `even` sends
at most threshold items, and otherwise parts whose sizes differ by at most one. It opens with fingerprints
only, so that equal sets send no items. Either side understands the other's messages.
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
    """Cut a range of ``size`` items (at least 1) into parts; returns the parts' offsets, 0 first."""
    if rule == "upstream":
        return list(range(0, size, -(-size // division)))
    parts = min(size, division)
    return [index * size // parts for index in range(parts)]


Reply: TypeAlias = Callable[[Sequence[Any], Span], Sequence[Any]]
"""Maps the items that the remote has in a range, and our span of it, to the items that we send."""

MoveCuts: TypeAlias = Callable[[Sequence[int], Sequence[int]], Sequence[int]]
"""Maps the ranks of cuts and the distance that each may be moved to the distance that each is moved.

A negative distance moves the cut back.
"""


@dataclass(frozen=True, slots=True)
class ReconciliationSettings:
    """Settings by which one side answers; the other side may have different ones."""

    rule: Rule
    threshold: int
    """A range of at most this many own items is sent as items."""
    division: int
    """Number of parts into which other ranges are cut."""
    absorb: bool
    reply: Reply | None
    move_cuts: MoveCuts | None = None

    @property
    def brief(self) -> bool:
        """Whether ranges that end for both sides are merged; the published algorithm never merges."""
        return self.rule == "even" and not self.absorb

    def __post_init__(self) -> None:
        assert self.rule in RULES
        assert self.threshold >= 1, "a single item can only be sent"
        assert self.division >= 2, "a range in one part is the same range again"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one session. A session that exceeds one of them ends with a typed error."""

    slack_batches: int = 8
    """Batches of both sides beyond 2 + 2 * ceil(log of our item count to the base of our division)."""
    messages_per_batch: int = 1 << 21
    messages_per_item: int = 4
    """Messages in one batch for each item that we hold, if that is the larger limit: all items may differ."""
    items_per_run: int = 1 << 20
    """Items of one range that the remote sends."""
    slack_items: int = 4_096
    """Items that we send beyond twice the number that we hold."""
