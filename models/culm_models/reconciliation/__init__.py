"""Range-based set reconciliation: two sides find where their ordered sets differ (rbsr.md, 1.3 to 1.6).

| module | what it holds |
|---|---|
| ordered_set | what the machine asks of a set, on ranks |
| sorted_list | such a set in plain lists, over any monoid |
| messages | what one side says to the other |
| rules | how a range is split: `upstream` and `even` |
| ring | the order of bounds from where a batch begins |
| reconciler | the machine of one side |
| incoming, outgoing | the batch that the remote, or this side, is saying |
| questions, answers | what our last batch left open; what is said about what the other closed |
| facts | what it learns about the other side |
| limits, errors | what a remote can make it do, and what is said beyond that |
"""

from culm_models.reconciliation.errors import ReconciliationError
from culm_models.reconciliation.facts import Facts
from culm_models.reconciliation.limits import Limits
from culm_models.reconciliation.ordered_set import GrowingSet, OrderedSet, Span
from culm_models.reconciliation.reconciler import Reconciler
from culm_models.reconciliation.rules import RULES, Rule

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
