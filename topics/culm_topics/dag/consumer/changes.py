"""The changes of an id between two records of `dag.published` (reference 5.4); knows no Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from culm_models.dag.blocks.cid import Cid
from culm_topics.dag.records import PublishedRecord


class DagChangeKind(StrEnum):
    """The meaning of a change for its publish."""

    SUPERSEDED = "superseded"
    """It was the tip, and the new tip does not build on it: both can be opened and merged."""
    TIP = "tip"
    COMPLETE = "complete"
    """It is the latest complete publish: the one to read."""
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class DagChange:
    """One change of one id; `published` is the whole new record."""

    kind: DagChangeKind
    id: bytes
    cid: Cid
    published: PublishedRecord = field(repr=False)


def changes_between(
    id: bytes,
    before: PublishedRecord | None,
    after: PublishedRecord,
    builds_on: Callable[[Cid, Cid], bool],
) -> list[DagChange]:
    """Return the changes in the order of their kinds.

    `builds_on(new, old)` returns whether `old` is an ancestor of `new`. Without a previous record, everything
    in `after` is new.
    """
    changes: list[tuple[DagChangeKind, Cid]] = []
    if before is None or before.tip != after.tip:
        if before is not None and not builds_on(after.tip, before.tip):
            changes.append((DagChangeKind.SUPERSEDED, before.tip))
        changes.append((DagChangeKind.TIP, after.tip))
    complete = None if before is None else before.complete
    if after.complete is not None and after.complete != complete:
        changes.append((DagChangeKind.COMPLETE, after.complete.cid))
    known = () if before is None else before.revoked.links
    changes += [(DagChangeKind.REVOKED, cid) for cid in after.revoked.links if cid not in known]
    return [DagChange(kind, id, cid, after) for kind, cid in changes]
