"""Several replicas that get nodes and shards in any order from each other, all from one seed.

First everything happens at random: nodes and shards appear at some replica, connections begin and are lost in
the middle of anything, bytes are cut anywhere, verdicts come late, and some replicas speak with a liar. Then
neighbours in a row are connected until they are done, there, back, and there again.

What must hold: honest ends never drop each other; nothing is kept that nobody made; a connection that has
come to rest is done at both ends; and in the end all replicas say the same.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.keys import KeyPair
from culm_models.testing.dag.link import DagLink
from culm_models.testing.dag.replica import MemoryReplica
from culm_models.testing.dag.scenario import DagScenario, draw_scenario
from culm_models.testing.errors import SimulationError

_STEPS_MAX: Final = 200_000
_FRAMES: Final = (1_000, 2_000, 1_000_000, 1_000_000)


class DagSimulation:
    """One run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = random.Random(seed)
        self.scenario: DagScenario = draw_scenario(self._rng)
        self.replicas = [MemoryReplica() for _ in range(self._rng.choice((2, 2, 3, 4)))]
        self._keys = [KeyPair(bytes([n + 1]) * 32).public_key for n in range(len(self.replicas) + 1)]
        self._links: list[DagLink] = []
        self._items = [(True, *one) for one in self.scenario.nodes]
        self._items += [(False, *one) for one in self.scenario.shards]
        self._rng.shuffle(self._items)

    def run(self, actions: int) -> None:
        """So many random actions, then all of the end. Raises `SimulationError`."""
        for _ in range(actions):
            self._act()
            self._forget_ended()
        while self._items:
            self._appear()
        self._links.clear()
        pairs = list(pairwise(range(len(self.replicas))))
        # A proof goes where the publish is known that names it, so once more than there and back.
        for one, other in (*pairs, *reversed(pairs), *pairs):
            self._finish(self._connect(one, other))
        self._check_kept()
        self._check_equal()

    # At random.

    def _act(self) -> None:
        choice = self._rng.random()
        if choice < 0.05 and self._items:
            self._appear()
        elif choice < 0.07 and len(self._links) < 6:
            one, other = self._rng.sample(range(len(self.replicas)), 2)
            self._links.append(self._connect(one, other))
        elif choice < 0.075 and len(self._links) < 6:
            self._links.append(self._connect_liar(self._rng.randrange(len(self.replicas))))
        elif choice < 0.08 and self._links:
            self._links.pop(self._rng.randrange(len(self._links)))
        elif self._links:
            self._rng.choice(self._links).step()

    def _appear(self) -> None:
        is_node, space, cid, data = self._items.pop()
        for replica in self._rng.sample(self.replicas, self._rng.randint(1, len(self.replicas))):
            if is_node:
                replica.put(space, cid, data)
            else:
                replica.add_shard(space, cid, data)
            self._offer_new(replica, space, cid)

    def _offer_new(self, replica: MemoryReplica, space: bytes, cid: Cid) -> None:
        for link in self._links:
            link.offer_new(replica, space, cid)

    def _settings(self) -> ExchangeSettings:
        # At the end nothing may be left out for want of room.
        if not self._items:
            return ExchangeSettings("bound", bytes(32), spaces=self.scenario.spaces)
        return ExchangeSettings(
            "bound",
            bytes(32),
            spaces=self.scenario.spaces,
            wants_in_flight=self._rng.choice((1, 3, 256)),
            wanted_bytes=self._rng.choice((1, 1_000_000, 67_108_864)),
            nodes_known_of=self._rng.choice((1, 3, 10_000)),
            max_frame=self._rng.choice(_FRAMES),
        )

    def _connect(self, one: int, other: int) -> DagLink:
        ends = tuple((self.replicas[n], self._keys[n], self._settings()) for n in (one, other))
        return DagLink(self._rng, ends, self._offer_new)

    def _connect_liar(self, one: int) -> DagLink:
        liar = MemoryReplica()
        for space, cid, block in self.scenario.nodes:
            liar.put(space, cid, block)
        for space, cid, data in self.scenario.shards:
            liar.add_shard(space, cid, data)
        ends = (
            (self.replicas[one], self._keys[one], self._settings()),
            (liar, self._keys[-1], self._settings()),
        )
        return DagLink(self._rng, ends, self._offer_new, liar=True)

    def _forget_ended(self) -> None:
        for link in self._links:
            if link.is_over and not link.ends[1].is_liar:
                self._fail(f"an honest end was dropped: {[end.exchange.dropped for end in link.ends]}")
        self._links = [link for link in self._links if not link.is_over]

    # The end.

    def _finish(self, link: DagLink) -> None:
        self._links = [link]
        for _ in range(_STEPS_MAX):
            if not link.step():
                break
        self._forget_ended()
        if not link.is_done():
            self._fail("a connection came to rest, and is not done")

    def _check_kept(self) -> None:
        made = {cid for _, cid, _ in self.scenario.nodes}
        shards = {cid for _, cid, _ in self.scenario.shards}
        for replica in self.replicas:
            if not replica.blocks.keys() <= made or not replica.shard_bytes.keys() <= shards:
                self._fail("something is kept that nobody made")

    def _check_equal(self) -> None:
        views = [self._view(replica) for replica in self.replicas]
        for view in views[1:]:
            different = [name for name, value in view.items() if value != views[0][name]]
            if different:
                self._fail(f"replicas differ in {different}")

    def _view(self, replica: MemoryReplica) -> dict[str, object]:
        spaces = self.scenario.spaces
        return {
            "nodes": {space: sorted(replica.places.get(space, ())) for space in spaces},
            "shards": {space: list(replica.shards(space)) for space in spaces},
            "heads": {space: replica.dag_heads(space) for space in spaces},
            "order": {space: replica.machine.order(space).order() for space in spaces},
            "states": {space: replica.machine.states(space) for space in spaces},
        }

    def _fail(self, why: str) -> None:
        raise SimulationError(f"seed {self._seed}: {why}")
