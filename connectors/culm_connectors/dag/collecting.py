"""Which shards nothing needs any more (R33): a function of the folder, the settings and the time.

Nodes, publishes and UCANs are never dropped: they are small, and order and verdicts depend on them alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import BlockKind
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.publish.states import PublishState
from culm_models.dag.replica.store import ReplicaStore

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """What is kept in any case."""

    keep: int = 10
    """Complete publishes of each id, the newest."""
    keep_of: Mapping[bytes, int] = field(default_factory=dict)
    """Of some ids another number."""
    grace_s: int = 30 * DAY_S
    """Shards that came no longer ago."""


def collectable(folder: DagFolder, settings: CollectSettings, *, now: int) -> list[tuple[Cid, int]]:
    """Shards that may be dropped, with their sizes, ascending.

    Kept are those in the origins of the newest complete publishes of each id, in the states of the heads of
    spaces whose id never published, and those that came within the grace.
    """
    store = _nodes(folder)
    needed: set[Cid] = set()
    for space in folder.queries.spaces():
        order = folder.published(space).order
        complete = [one for one in reversed(order) if one.state is PublishState.COMPLETE]
        keep = settings.keep_of.get(space, settings.keep)
        roots = [one.origin for one in complete[:keep]] if order else folder.dag_heads(space)
        needed |= store.state(roots).shards
    found = []
    for shard in sorted(folder.all_shards()):
        path = folder.shard_path(shard)
        if shard in needed or path is None:
            continue
        status = path.stat()
        if status.st_mtime < now - settings.grace_s:
            found.append((shard, status.st_size))
    return found


def shards_of_no_other(folder: DagFolder, spaces: Collection[bytes]) -> list[Cid]:
    """The shards that are here of some spaces and of no other one, ascending."""
    others = [space for space in folder.queries.spaces() if space not in spaces]
    found = {shard for space in spaces for shard, _ in folder.shards(space)}
    return sorted(
        shard for shard in found if all(folder.shard_size(other, shard) is None for other in others)
    )


def _nodes(folder: DagFolder) -> ReplicaStore:
    """All appends and joins of all spaces: containment is by CID, across spaces (R14)."""
    verdict = folder.settings.verdict
    store = ReplicaStore(legacy=verdict.legacy, bounds=verdict.bounds)
    for _, cid, kind in folder.queries.placed():
        block = folder.read_node(cid) if kind in (BlockKind.APPEND, BlockKind.JOIN) else None
        if block is not None:
            try:
                store.add(block)
            except DagError:
                continue  # it was refused when it came
    return store
