"""The batch being received: turns messages into closed ranges in ring order (rbsr.md, 1.3 and 1.4).

Input that breaks the rules raises an error here. The code behind this module deals only with ranges that are
in order, do not overlap, and lie in open ranges.
"""

from enum import IntEnum
from typing import Any, Final, TypeAlias

from culm_models.reconciliation.messages import (
    BoundOrderError,
    Done,
    EmptyPayload,
    Fingerprint,
    LowerBound,
    LowerBoundMissingError,
    MessageCountError,
    Payload,
    ReconciliationMessage,
    RunSizeError,
    RunUnfinishedError,
)
from culm_models.reconciliation.ordered_set import Position, position, start_of
from culm_models.reconciliation.questions import Facts, Questions
from culm_models.reconciliation.settings import Limits


class RangeKind(IntEnum):
    """Kind of statement of the remote about a range."""

    FINGERPRINT = 0
    """The remote's fingerprint of the range."""
    RUN = 1
    """All items of the remote in the range; it asks for ours."""
    REPLY = 2
    """Items in answer to ours."""
    EMPTY = 3
    """The remote has no items in the range; it asks for ours."""
    DONE = 4


# Reading a member from its class costs several times as much as the comparison, and there are a million of
# them.
FINGERPRINT: Final = RangeKind.FINGERPRINT
RUN: Final = RangeKind.RUN
REPLY: Final = RangeKind.REPLY
EMPTY: Final = RangeKind.EMPTY
DONE: Final = RangeKind.DONE

Closed: TypeAlias = tuple[RangeKind, Any, Any, Position, Position, Any]
"""Kind of statement, lower and upper bound, their positions, and the fingerprint or the items."""


class Incoming:
    """Reads the remote's messages about ranges, batch by batch."""

    __slots__ = ("_at", "_count", "_lower", "_max_items", "_max_messages", "_run", "origin", "questions")

    def __init__(self, limits: Limits, items_held: int) -> None:
        self._max_messages = max(limits.messages_per_batch, limits.messages_per_item * items_held)
        self._max_items = limits.items_per_run
        self._count = 0
        # The bound at which every batch of the session begins, in a tuple because a known bound may be falsy.
        self.origin: tuple[Any] | None = None
        self._lower: Any = None
        self._at: Position | None = None
        self._run: list[Any] | None = None
        self.questions = Questions(None)

    @property
    def has_begun(self) -> bool:
        """Whether any message of the batch has arrived."""
        return self._count > 0

    @property
    def in_ranges(self) -> bool:
        """Whether the batch's lower bound has arrived."""
        return self._at is not None

    def count(self) -> None:
        """Count a message of this batch. Raises `MessageCountError` beyond the limit."""
        self._count += 1
        if self._count > self._max_messages:
            raise MessageCountError(f"more than {self._max_messages} messages in one batch")

    def begin(self, message: LowerBound) -> None:
        """Begin the batch at its lower bound, which is the same for all batches of a session."""
        self._check_no_run()
        if self._at is not None:
            raise BoundOrderError("a second lower bound in one batch")
        if self.origin is None:
            self.origin = (message.value,)
        elif self.origin[0] != message.value:
            raise BoundOrderError("a batch begins elsewhere than the one that it answers")
        self._lower = message.value
        self._at = start_of(message.value)

    def read(self, message: ReconciliationMessage, facts: Facts) -> Closed | None:
        """Return the range that a message closes; None for an item that others follow."""
        low = self._at
        if low is None or self.origin is None:
            raise LowerBoundMissingError("a range without a preceding lower bound")
        kind = type(message)
        if kind is Payload:
            return self._read_item(message, facts)  # type: ignore[arg-type]
        if self._run is not None:
            self._check_no_run()
        lower = self._lower
        upper = message.upper_bound  # type: ignore[attr-defined]
        high = self._advance(low, upper)
        if kind is Done:
            self.questions.close(low, high, facts, by_done=True)
            return DONE, lower, upper, low, high, None
        self.questions.check(low, high)
        if kind is Fingerprint:
            return FINGERPRINT, lower, upper, low, high, message.fingerprint  # type: ignore[attr-defined]
        assert kind is EmptyPayload
        return EMPTY, lower, upper, low, high, ()

    def finish(self, questions: Questions) -> None:
        """End the batch; the batch that answers it asks these questions."""
        self._check_no_run()
        self.questions = questions
        self._at = None
        self._count = 0

    def _read_item(self, message: Payload, facts: Facts) -> Closed | None:
        run = self._run
        if run is None:
            run = self._run = []
        run.append(message.value)
        if len(run) > self._max_items:
            raise RunSizeError(f"more than {self._max_items} items of one range")
        if message.can_respond is None:
            return None
        if message.upper_bound is None:
            raise RunUnfinishedError("a run's end without its upper bound")
        self._run = None
        low, lower, upper = self._at, self._lower, message.upper_bound
        assert low is not None
        high = self._advance(low, upper)
        facts.shown.extend(run)
        if message.can_respond:
            self.questions.check(low, high)
            return RUN, lower, upper, low, high, run
        self.questions.check_any(low, high)
        self.questions.close(low, high, facts, by_done=False)
        return REPLY, lower, upper, low, high, run

    def _advance(self, low: Position, upper: Any) -> Position:
        assert self.origin is not None
        high = position(upper, self.origin[0])
        if not low < high:
            raise BoundOrderError("a range that does not end behind the one before it")
        self._lower = upper
        self._at = high
        return high

    def _check_no_run(self) -> None:
        if self._run is not None:
            raise RunUnfinishedError("a run of items without its end")
