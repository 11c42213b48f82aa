"""Why a session of set reconciliation ends before its time: one class a reason (rbsr.md, 4.5)."""

from culm_models.errors import ModelError


class ReconciliationError(ModelError, code="reconciliation"):
    """A remote that does not keep to set reconciliation, or asks too much of it."""


class LowerBoundMissingError(ReconciliationError, code="reconciliation.lower_bound_missing"):
    """A message about a range before the batch said where it begins."""


class BoundOrderError(ReconciliationError, code="reconciliation.bound_order"):
    """A range that does not lie behind the one before it, or a batch that begins elsewhere."""


class RunUnfinishedError(ReconciliationError, code="reconciliation.run_unfinished"):
    """A payload series without its end: another message came, or half of an end."""


class RangeDoneError(ReconciliationError, code="reconciliation.range_done"):
    """More is said about a range in which nothing was left open."""


class UnexpectedEmptySetError(ReconciliationError, code="reconciliation.empty_set"):
    """An empty set message anywhere but at the start."""


class AfterDoneError(ReconciliationError, code="reconciliation.after_done"):
    """A message behind the end of the reconciliation that is not the echo of our last batch."""


class BatchCountError(ReconciliationError, code="reconciliation.batch_count"):
    """More batches than any two sets need."""


class MessageCountError(ReconciliationError, code="reconciliation.message_count"):
    """More messages in one batch than are taken."""


class RunSizeError(ReconciliationError, code="reconciliation.run_size"):
    """More items of one range than are taken."""


class ItemCountError(ReconciliationError, code="reconciliation.item_count"):
    """Items are asked for again and again."""
