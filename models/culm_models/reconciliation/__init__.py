"""Range-based set reconciliation: two sides find where their ordered sets differ (rbsr.md, 1.3 to 1.6).

| module | contents |
|---|---|
| ordered_set | the interface of a set, on ranks; such a set in plain lists; the order of bounds |
| messages | the messages of both sides, and the errors of a remote that breaks the rules |
| settings | the rules by which ranges are split and answered (`upstream`, `even`); limits on a remote |
| reconciler | the state machine of one side |
| incoming, outgoing | the batch being received from the remote, and the batch being sent by this side |
| questions, answers | ranges that our last batch left open; answers to ranges that the remote closed |
"""

from culm_models.reconciliation.messages import ReconciliationError
from culm_models.reconciliation.ordered_set import GrowingSet, OrderedSet, Span
from culm_models.reconciliation.questions import Facts
from culm_models.reconciliation.reconciler import Reconciler
from culm_models.reconciliation.settings import RULES, Limits, Rule

__all__ = [
    "RULES",
    "Facts",
    "GrowingSet",
    "Limits",
    "OrderedSet",
    "Reconciler",
    "ReconciliationError",
    "Rule",
    "Span",
]
