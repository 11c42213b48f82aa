"""The state of the publishes of each id; only publishes with changed data are evaluated again (R15)."""

from collections.abc import Iterable

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.publish.states import PublishState
from culm_topics.dag.records import CompletePublish, PublishedRecord, first_links
from culm_topics.dag.records.state import MAX_KEY_LINKS


class PublishedIds:
    """States of publishes, which are evaluated again when the data that they wait for arrives."""

    def __init__(self, machine: PublishMachine) -> None:
        self._machine = machine
        self._states: dict[Cid, PublishState] = {}
        self._waiting: dict[Cid, set[tuple[bytes, Cid]]] = {}
        """By each missing node or shard: the publishes, with ids, whose state it may change."""
        self._using: dict[Cid, set[tuple[bytes, Cid]]] = {}
        """By each held shard: the publishes whose state depends on it."""
        self.with_revocations: set[bytes] = set()
        """Ids in whose orders there is a revocation, or was one that may have left publishes pending."""

    def came(self, cids: Iterable[Cid]) -> set[bytes]:
        """Note that nodes or shards arrived; returns the ids with publishes that waited for them."""
        return self._forget(self._waiting, cids)

    def went(self, shards: Iterable[Cid]) -> set[bytes]:
        """Note that shards are gone; returns the ids with publishes whose state depended on them."""
        return self._forget(self._using, shards)

    def _forget(self, by: dict[Cid, set[tuple[bytes, Cid]]], cids: Iterable[Cid]) -> set[bytes]:
        ids: set[bytes] = set()
        for cid in cids:
            for id, publish in by.pop(cid, ()):
                self._states.pop(publish, None)
                ids.add(id)
        return ids

    def record(self, id: bytes) -> PublishedRecord | None:
        """Return the published state of an id; None while its order is empty."""
        machine = self._machine
        order = machine.order(id)
        tip = order.tip
        if tip is None:
            return None
        revoked: list[Cid] = []
        if machine.revokes(id):
            self.with_revocations.add(id)
            states = machine.states(id, lambda cid: self._state(id, cid))
            latest = next((cid for cid in reversed(states) if states[cid] is PublishState.COMPLETE), None)
            tip_state = states[tip]
            revoked = [cid for cid, state in states.items() if state is PublishState.REVOKED]
        else:
            # The states of publishes before the latest complete one are not needed.
            tip_state = self._state(id, tip)
            latest = next(
                (cid for cid in order.newest_first() if self._state(id, cid) is PublishState.COMPLETE), None
            )
        complete = None
        if latest is not None:
            change = machine.publish(latest)
            complete = CompletePublish(latest, change.link, change.origin, change.shard)
        return PublishedRecord(
            tip,
            tuple(order.tip_key()[:MAX_KEY_LINKS]),
            len(order),
            tip_state,
            first_links(cid for cid in order.heads() if cid != tip),
            first_links(revoked),
            complete,
        )

    def _state(self, id: bytes, cid: Cid) -> PublishState:
        state = self._states.get(cid)
        if state is None:
            state = self._states[cid] = self._machine.content_state(cid)
            change = self._machine.publish(cid)
            origin = self._machine.store.state((change.origin,))
            shards = set(origin.shards)
            if change.shard is not None:
                shards.add(change.shard)
            here = self._machine.shards
            for missing in (*origin.missing, *(shard for shard in shards if shard not in here)):
                self._waiting.setdefault(missing, set()).add((id, cid))
            for shard in shards:
                if shard in here:
                    self._using.setdefault(shard, set()).add((id, cid))
        return state
