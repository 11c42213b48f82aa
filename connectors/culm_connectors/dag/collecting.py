"""Finds shards that nothing needs any more (R33): a function of the folder, the settings and the time.

Nodes, publishes and UCANs are never dropped: they are small, and orders and validation depend on them alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import DagBlockKind
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.publish.states import PublishState
from culm_models.dag.replica.store import ReplicaStore

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """Shards that are kept in any case."""

    keep: int = 10
    """Number of newest complete publishes of each id whose shards are kept."""
    keep_of: Mapping[bytes, int] = field(default_factory=dict)
    """The same number for individual ids."""
    grace_s: int = 30 * DAY_S
    """Shards that came within this many seconds are kept."""


def collectable(folder: DagFolder, settings: CollectSettings, *, now: int) -> list[tuple[Cid, int]]:
    """Return the shards that may be dropped, with their sizes in bytes, ascending.

    Kept are the shards in the origins of the newest complete publishes of each id, those in the states of the
    heads of spaces whose id never published, and those that came within the grace period.
    """
    store = _nodes(folder)
    needed: set[Cid] = set()
    for space in folder.queries.spaces():
        order = folder.published(space).order
        complete = [publish for publish in reversed(order) if publish.state is PublishState.COMPLETE]
        keep = settings.keep_of.get(space, settings.keep)
        roots = [publish.origin for publish in complete[:keep]] if order else folder.dag_heads(space)
        needed |= store.state(roots).shards
    droppable = []
    for shard in sorted(folder.all_shards()):
        path = folder.shard_path(shard)
        if shard in needed or path is None:
            continue
        status = path.stat()
        if status.st_mtime < now - settings.grace_s:
            droppable.append((shard, status.st_size))
    return droppable


def shards_of_no_other(folder: DagFolder, spaces: Collection[bytes]) -> list[Cid]:
    """Return the shards here that belong to these spaces and to no other space, ascending."""
    others = [space for space in folder.queries.spaces() if space not in spaces]
    candidates = {shard for space in spaces for shard, _ in folder.shards(space)}
    return sorted(
        shard for shard in candidates if all(folder.shard_size(other, shard) is None for other in others)
    )


def _nodes(folder: DagFolder) -> ReplicaStore:
    """Return all appends and joins of all spaces: containment is by CID, across spaces (R14)."""
    verdict = folder.settings.verdict
    store = ReplicaStore(legacy=verdict.legacy, bounds=verdict.bounds)
    for _, cid, kind in folder.queries.placed():
        block = folder.read_node(cid) if kind in (DagBlockKind.APPEND, DagBlockKind.JOIN) else None
        if block is not None:
            try:
                store.add(block)
            except DagError:
                continue  # it was refused when it came
    return store
