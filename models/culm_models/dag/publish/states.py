"""State of a publish (R15): depends on the blocks that are present, and never changes the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import BlockMissing, DagError
from culm_models.dag.replica.node import PublishChange
from culm_models.dag.replica.store import DagState, ReplicaStore
from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules
from culm_models.dag.walk.reach import links_of, reach_by_links
from culm_models.dag.walk.shard_blocks import ShardBlocks, ShardLinks, is_opaque, open_shard

HeldShard = ShardBlocks | ShardLinks
"""A shard that is held, with the bytes of its blocks or only with their links."""


class PublishState(StrEnum):
    """The state of a publish. Only complete publishes can be read."""

    REVOKED = "revoked"
    BROKEN = "broken"
    PENDING = "pending"
    OPAQUE = "opaque"
    PARTIAL = "partial"
    COMPLETE = "complete"


def content_state(
    change: PublishChange,
    store: ReplicaStore,
    shards: Mapping[Cid, HeldShard],
    settings: ValidationRules = DEFAULT_RULES,
) -> PublishState:
    """Compute the state of a publish that is not revoked."""
    hashes = settings.hashes
    origin = store.state((change.origin,))
    here = {
        cid: held_shard for cid in origin.shards if (held_shard := _shard(cid, shards, settings)) is not None
    }
    opaque = any(is_opaque(cid, hashes) for cid in origin.shards)
    missing = bool(origin.missing) or any(
        cid not in here and not is_opaque(cid, hashes) for cid in origin.shards
    )
    if origin.broken or _is_broken(change, origin, shards, settings):
        return PublishState.BROKEN
    is_held = change.link.is_identity or any(_holds(shard, change.link) for shard in here.values())
    if not (missing or opaque or is_held):
        return PublishState.BROKEN
    if missing:
        return PublishState.PENDING
    if opaque:
        return PublishState.OPAQUE
    holding: dict[Cid, HeldShard] = {}
    for shard in here.values():
        holding |= dict.fromkeys(shard.cids, shard)

    def links(cid: Cid) -> Sequence[Cid] | None:
        if cid.is_identity:
            return links_of(cid, cid.digest)
        containing = holding.get(cid)
        if containing is None:
            raise BlockMissing(f"the block {cid} is in no shard of the origin")
        return containing.links(cid)

    missed = reach_by_links((change.link,), links).missing
    return PublishState.PARTIAL if missed else PublishState.COMPLETE


def _is_broken(
    change: PublishChange, origin: DagState, shards: Mapping[Cid, HeldShard], settings: ValidationRules
) -> bool:
    """Whether the shard that a publish names does not belong to its origin or does not hold the link."""
    if change.shard is None:
        return False
    if not origin.missing and change.shard not in origin.shards:
        return True
    shard = _shard(change.shard, shards, settings)
    return shard is not None and not _holds(shard, change.link)


def _holds(shard: HeldShard, link: Cid) -> bool:
    return link.is_identity or link in shard


def _shard(cid: Cid, shards: Mapping[Cid, HeldShard], settings: ValidationRules) -> HeldShard | None:
    """Return a shard that is held, or None. A shard with an identity CID is always present."""
    if cid.is_identity and not is_opaque(cid, settings.hashes):
        try:
            return open_shard(cid, cid.digest, hashes=settings.hashes, bounds=settings.bounds)
        except DagError:
            return ShardBlocks((), {})
    return shards.get(cid)
