"""The publish state machine: blocks in any order go in, orders of ids come out (reference 3.3, 4.5, 5.4).

A publish is in the order if it is authorised at one of its times of receipt and its prior is in the order.
The result depends on the set of blocks with their times of receipt, not on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.blocks.multihash import check_block
from culm_models.dag.errors import BlockTooLarge, BlockUnknown, DagError, UcanProofMissing
from culm_models.dag.order.total_order import TotalOrder
from culm_models.dag.publish.authority import Authority, is_final
from culm_models.dag.publish.states import HeldShard, PublishState, content_state
from culm_models.dag.replica.node import AppendChange, PublishChange, ReplicaNode
from culm_models.dag.replica.store import ReplicaStore
from culm_models.dag.ucan.chain import ChainRefusal
from culm_models.dag.ucan.claims import revoked_by
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules
from culm_models.dag.walk.shard_blocks import open_shard


@dataclass(frozen=True, slots=True)
class Reordered:
    """Change of the order of an id."""

    tip: Cid
    start: int
    changed: int
    superseded: Cid | None
    """The previous tip, if the new tip does not build on it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of adding a block."""

    kind: str
    """`append`, `join`, `publish`, `ucan` or `shard`."""
    missing: tuple[Cid, ...] = ()
    is_admitted: bool | None = None
    """True if a publish is in the order now, False if it waits. None for other blocks."""
    orders: dict[bytes, Reordered] = field(default_factory=dict)


class PublishMachine:
    """The state of publishing in memory: nodes, UCANs, shards, and an order for each id.

    A publish that is refused only because of its time of receipt is discarded, so that nodes that build on it
    miss it. With `keeps_all` it is kept and waits, as if it had arrived before its proofs.
    """

    def __init__(self, settings: ValidationRules = DEFAULT_RULES, *, keeps_all: bool = False) -> None:
        self._settings = settings
        self._keeps_all = keeps_all
        self._store = ReplicaStore(legacy=settings.legacy, bounds=settings.bounds)
        self._authority = Authority(settings)
        self._shards: dict[Cid, HeldShard] = {}
        self._orders: dict[bytes, TotalOrder] = {}
        # Times of receipt at which a publish is authorised or waits for proofs, also of publishes in an
        # order. A revocation may invalidate what authorised it at one time, but not at another (R24, R32).
        self._receipts: dict[Cid, list[int]] = {}
        self._authorised: set[Cid] = set()
        self._revoking: set[bytes] = set()
        # For each missing proof, the publishes that it may authorise.
        self._awaiting: dict[Cid, set[Cid]] = {}

    @property
    def nodes(self) -> dict[Cid, ReplicaNode]:
        """Nodes that are held and not refused, in an order or waiting."""
        return self._store.nodes

    @property
    def refused(self) -> dict[Cid, DagError]:
        """Nodes that were refused permanently, with the error."""
        return self._store.refused

    def order(self, id: bytes) -> TotalOrder:
        """Return the order of an id; it is empty if the id has no publish in it."""
        return self._orders.get(id) or TotalOrder()

    def add(self, cid: Cid, data: bytes, now: int) -> Taken:
        """Add a block received at `now` (seconds). Raises the `DagError` with which it is refused."""
        if cid.codec not in (CAR, DAG_CBOR, RAW):
            raise BlockUnknown("a block that is neither node, UCAN nor shard")
        limit = self._settings.bounds.car
        if len(data) > limit:
            raise BlockTooLarge(f"a block over {limit} bytes")
        check_block(cid, data, self._settings.hashes)
        if cid.codec == CAR:
            return self._add_shard(cid, data)
        if cid.codec == RAW:
            return self._add_ucan(cid, data)
        if cid in self._store.refused:
            raise self._store.refused[cid]
        try:
            value = decode_dag_cbor(data)
        except DagError:
            # Not a node, so the block can only be a proof.
            return self._add_ucan(cid, data)
        keys = value if isinstance(value, dict) else {}
        if "change" in keys and cid.is_sha2_256:
            return self._add_node(data, now)
        if "blocks" in keys and "change" not in keys:
            return self._add_shard(cid, data)
        return self._add_ucan(cid, data)

    def _add_shard(self, cid: Cid, data: bytes) -> Taken:
        if cid not in self._shards:
            self._shards[cid] = open_shard(
                cid, data, hashes=self._settings.hashes, bounds=self._settings.bounds
            )
        return Taken("shard")

    def _add_ucan(self, cid: Cid, data: bytes) -> Taken:
        return self._taken_ucan(cid, self._authority.take(cid, data))

    def put_ucan(self, cid: Cid, ucan: Ucan | DagError) -> Taken:
        """Add a UCAN that was verified or refused elsewhere. Raises the error if it was refused."""
        return self._taken_ucan(cid, self._authority.put(cid, ucan))

    def _taken_ucan(self, cid: Cid, error: DagError | None) -> Taken:
        orders = self._review(cid)
        if error is not None:
            raise error
        return Taken("ucan", orders=orders)

    def put_node(
        self, node: ReplicaNode, now: int, *, is_verified: bool, is_authorised: bool = False
    ) -> Taken:
        """Add a node that was decoded elsewhere. Raises the `DagError` with which it is refused.

        `is_verified`: the signature of its proof was verified there. `is_authorised`: the proof authorises
        the publish at this time of receipt without other UCANs (`is_authorised_alone`).
        """
        self._store.put(node)
        if is_verified and isinstance(node.change, PublishChange):
            self._authority.put_leaf(node.change.proof.cid)
        return self._taken_node(node, now, is_authorised=is_authorised)

    def refuse(self, cid: Cid, error: DagError) -> DagError:
        """Record that a node was refused permanently elsewhere because of its bytes.

        Returns the error with which it is refused here, which may be an earlier one.
        """
        self._store.refuse(cid, error)
        return self._store.refused[cid]

    def _add_node(self, data: bytes, now: int) -> Taken:
        return self._taken_node(self._store.add(data)[0], now)

    def _taken_node(self, node: ReplicaNode, now: int, *, is_authorised: bool = False) -> Taken:
        if isinstance(node.change, PublishChange):
            return self._add_publish(node, node.change, now, is_good=is_authorised)
        kind = "append" if isinstance(node.change, AppendChange) else "join"
        return Taken(kind, tuple(sorted(self._store.missing_parents(node))))

    def _add_publish(self, node: ReplicaNode, change: PublishChange, now: int, *, is_good: bool) -> Taken:
        cid = node.cid
        missing: Iterable[Cid] = ()
        orders: dict[bytes, Reordered] = {}
        is_authorised = cid in self._authorised
        if not (is_authorised and now in self._receipts[cid]):
            refused = None if is_good else self._authority.judge(node, now)
            if refused is None or isinstance(refused.error, UcanProofMissing):
                receipts = self._receipts.setdefault(cid, [])
                if now not in receipts:
                    receipts.append(now)
            elif not is_authorised:
                self._forget(node, refused.error)
                raise refused.error
            if not is_authorised and refused is not None:
                missing = refused.missing
                self._await(cid, refused)
            elif not is_authorised:
                orders = self._authorise([node])
        if cid in self.order(change.id):
            return Taken("publish", (), True, orders)
        if not missing:
            missing = self._store.missing_parents(node)
        return Taken("publish", tuple(sorted(missing)), False, orders)

    def _forget(self, node: ReplicaNode, error: DagError) -> None:
        """Refuse a publish permanently if the error is final, else discard it unless a receipt keeps it."""
        if is_final(error):
            self._store.refuse(node.cid, error)
        elif node.cid not in self._receipts and not self._keeps_all:
            self._store.discard(node.cid)

    def _await(self, cid: Cid, refused: ChainRefusal) -> None:
        for proof in refused.missing:
            self._awaiting.setdefault(proof, set()).add(cid)

    def _review(self, proof: Cid) -> dict[bytes, Reordered]:
        """Check the publishes that waited for a UCAN again, each at its own times of receipt."""
        good = []
        for cid in sorted(self._awaiting.pop(proof, ())):
            node = self._store.nodes.get(cid)
            if node is None or cid in self._authorised:
                continue
            verdicts = [self._authority.judge(node, time) for time in self._receipts.get(cid, ())]
            if None in verdicts:
                good.append(node)
                continue
            for refused in verdicts:
                if refused is not None and is_final(refused.error):
                    self._store.refuse(cid, refused.error)
                elif refused is not None:
                    self._await(cid, refused)
        return self._authorise(good)

    def _authorise(self, nodes: list[ReplicaNode]) -> dict[bytes, Reordered]:
        """Add authorised publishes to their orders, and with them the publishes that waited for them."""
        self._authorised.update(node.cid for node in nodes)
        before: dict[bytes, Cid | None] = {}
        starts: dict[bytes, int] = {}
        ready = nodes[::-1]
        while ready:
            node = ready.pop()
            change = node.change
            if not isinstance(change, PublishChange):
                continue
            order = self._orders.get(change.id)
            if order is None:
                order = self._orders[change.id] = TotalOrder()
            if node.cid in order or not (node.prior is None or node.prior in order):
                continue
            claims = change.proof.claims
            if claims.facts and claims.issuer == did_key(change.id) and revoked_by(claims):
                self._revoking.add(change.id)
            before.setdefault(change.id, order.tip)
            start = order.add(node.cid, node.prior).start
            starts[change.id] = min(start, starts.get(change.id, start))
            children = self._store.children_of(node.cid)
            ready += [self._store.nodes[child] for child in children if child in self._authorised]
        return {id: self._reordered(id, before[id], start) for id, start in starts.items()}

    def _reordered(self, id: bytes, before: Cid | None, start: int) -> Reordered:
        order = self._orders[id]
        tip = order.order(len(order) - 1)[0]
        lost = before is not None and not order.builds_on(tip, before)
        return Reordered(tip, start, len(order) - start, before if lost else None)

    def waiting(self, id: bytes) -> list[Cid]:
        """Return the publishes of an id that are held and not in its order, ascending."""
        order = self.order(id)
        return sorted(
            cid
            for cid, node in self._store.nodes.items()
            if isinstance(node.change, PublishChange) and node.change.id == id and cid not in order
        )

    @property
    def store(self) -> ReplicaStore:
        """The store of all nodes, for queries about the states of replicas."""
        return self._store

    @property
    def shards(self) -> Mapping[Cid, HeldShard]:
        """Shards that are held."""
        return self._shards

    def put_shard(self, cid: Cid, shard: HeldShard) -> None:
        """Add a shard that was opened elsewhere."""
        self._shards[cid] = shard

    def drop_shard(self, cid: Cid) -> None:
        """Remove a shard. It may be added again (R33)."""
        self._shards.pop(cid, None)

    def content_state(self, cid: Cid) -> PublishState:
        """Return the state of a publish without regard to revocations (R15)."""
        return content_state(self.publish(cid), self._store, self._shards, self._settings)

    def states(
        self, id: bytes, content: Callable[[Cid], PublishState] | None = None
    ) -> dict[Cid, PublishState]:
        """Return the state of each publish in the order of an id (R15), with revocations applied (R32).

        `content` returns the state of a publish that is not revoked; the default is `content_state`.
        """
        content = content or self.content_state
        states: dict[Cid, PublishState] = {}
        revoked: frozenset[Cid] = frozenset()
        for cid in self.order(id).order():
            node = self._store.nodes[cid]
            change = node.change
            if not isinstance(change, PublishChange):
                continue
            state = self._revocation(node, revoked) if revoked else None
            if state is not PublishState.REVOKED and change.proof.claims.issuer == did_key(id):
                revoked |= frozenset(revoked_by(change.proof.claims))
            if state is None:
                state = content(cid)
            states[cid] = state
        return states

    def revokes(self, id: bytes) -> bool:
        """Whether a publish in the order of an id, issued by the id itself, revokes anything."""
        return id in self._revoking

    def _revocation(self, node: ReplicaNode, revoked: frozenset[Cid]) -> PublishState | None:
        """Return the effect of earlier revocations on a publish.

        Returns None if it is still authorised, PENDING if a missing proof may authorise it, else REVOKED.
        """
        state = PublishState.REVOKED
        for time in self._receipts[node.cid]:
            refused = self._authority.judge(node, time, revoked)
            if refused is None:
                return None
            if isinstance(refused.error, UcanProofMissing):
                state = PublishState.PENDING
        return state

    def publish(self, cid: Cid) -> PublishChange:
        """Return the change of a publish that is held."""
        change = self._store.nodes[cid].change
        if not isinstance(change, PublishChange):
            raise TypeError(f"{cid} is no publish")
        return change
