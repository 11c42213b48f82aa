"""Why a session of set reconciliation ends before its time: one class a reason (rbsr.md, 4.5)."""

from typing import ClassVar

from culm_models.errors import ModelError


class ReconciliationError(ModelError):
    """A remote that does not keep to set reconciliation, or asks too much of it."""

    code: ClassVar[str] = "reconciliation"


class LowerBoundMissingError(ReconciliationError):
    """A message about a range before the batch said where it begins."""

    code: ClassVar[str] = "reconciliation.lower_bound_missing"


class BoundOrderError(ReconciliationError):
    """A range that does not lie behind the one before it, or a batch that begins elsewhere."""

    code: ClassVar[str] = "reconciliation.bound_order"


class RunUnfinishedError(ReconciliationError):
    """A payload series without its end: another message came, or half of an end."""

    code: ClassVar[str] = "reconciliation.run_unfinished"


class RangeDoneError(ReconciliationError):
    """More is said about a range in which nothing was left open."""

    code: ClassVar[str] = "reconciliation.range_done"


class UnexpectedEmptySetError(ReconciliationError):
    """An empty set message anywhere but at the start."""

    code: ClassVar[str] = "reconciliation.empty_set"


class AfterDoneError(ReconciliationError):
    """A message behind the end of the reconciliation that is not the echo of our last batch."""

    code: ClassVar[str] = "reconciliation.after_done"


class BatchCountError(ReconciliationError):
    """More batches than any two sets need."""

    code: ClassVar[str] = "reconciliation.batch_count"


class MessageCountError(ReconciliationError):
    """More messages in one batch than are taken."""

    code: ClassVar[str] = "reconciliation.message_count"


class RunSizeError(ReconciliationError):
    """More items of one range than are taken."""

    code: ClassVar[str] = "reconciliation.run_size"


class ItemCountError(ReconciliationError):
    """Items are asked for again and again."""

    code: ClassVar[str] = "reconciliation.item_count"
