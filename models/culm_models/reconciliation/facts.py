"""What one side has learnt about the other's set, for an adapter that moves data by itself (rbsr.md, 4.1).

Spans are ranges of the own set as (start rank, size), each within the set that the session began with.
Only what is certain is reported; an own item that is in no fact is one that the remote never mentioned.
"""

from dataclasses import dataclass, field
from typing import Any

from culm_models.reconciliation.ordered_set import Span


@dataclass(slots=True)
class Facts:
    """What happened since the facts were last taken."""

    shown: list[Any] = field(default_factory=list)
    """Items that the remote holds, by its own word, in order of arrival, once their run is complete."""
    equal: list[Span] = field(default_factory=list)
    """Both sides hold the same here: we compared, or the remote answered our fingerprint with `Done`."""
    complete: list[Span] = field(default_factory=list)
    """The remote has shown all its items of the range: own items here that it did not show, it lacks."""
    answered: list[Span] = field(default_factory=list)
    """We showed our items here and the remote's answer is complete: it named what differs, among `shown`.

    An own item here that was not shown is equal there, or lacking: the published algorithm does not tell.
    """
    remote_empty: bool = False
    """The remote began with an empty set."""
