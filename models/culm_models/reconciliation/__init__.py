"""Range-based set reconciliation: two sides find where their ordered sets differ (rbsr.md, 1.3 to 1.6).

| module | what it holds |
|---|---|
| ordered_set | what the machine asks of a set, on ranks; such a set in plain lists; the order of bounds |
| messages | what one side says to the other, and what a remote may not say |
| settings | how a range is split, `upstream` or `even`, and answered; what a remote can make it do |
| reconciler | the machine of one side |
| incoming, outgoing | the batch that the remote, or this side, is saying |
| questions, answers | what our last batch left open, and learns; what is said about what the other closed |
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
