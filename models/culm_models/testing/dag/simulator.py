"""Several replicas that receive nodes and shards in any order from each other, all from one seed.

First, actions are random: nodes and shards appear at some replica, connections begin and are lost at any
point, bytes are split anywhere, validation is late, and some replicas are connected to a liar. Then
neighbours in a row are connected until they are done, there, back, and there again.

Invariants: honest ends never drop each other. Nothing is stored that the scenario does not contain. A
connection that has come to rest is done at both ends. In the end, all replicas hold the same data.
"""

from __future__ import annotations

from itertools import count, pairwise
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.keys import KeyPair
from culm_models.testing.dag.node import DagNode
from culm_models.testing.dag.replica import MemoryReplica
from culm_models.testing.dag.scenario import DagScenario, draw_scenario
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import Faults, SimulatedLink, Simulation

_LINKS_MAX: Final = 6
_STEP_MS: Final = 20
_QUIET_MS: Final = 50
_FRAMES: Final = (1_000, 2_000, 1_000_000, 1_000_000)


class DagSimulation(Simulation[DagNode]):
    """One run with this number of random actions.

    A connection is a link between two nodes that exist as long as the connection.
    """

    def __init__(self, seed: int, actions: int = 70) -> None:
        super().__init__(seed)
        self.actions = actions
        rng = self.rng
        self.faults = Faults(
            delay_ms=(0, rng.choice((5, 40))),
            pace_ms=(0, rng.choice((1, 10))),
            piece_bytes=(1, 10, 100, 1_000, 100_000, 1 << 30),
        )
        self.scenario: DagScenario = draw_scenario(rng)
        self.replicas = [MemoryReplica() for _ in range(rng.choice((2, 2, 3, 4)))]
        self._names = count()
        self._keys = [KeyPair(bytes([n + 1]) * 32).public_key for n in range(len(self.replicas) + 1)]
        self._items = [(True, *placed) for placed in self.scenario.nodes]
        self._items += [(False, *placed) for placed in self.scenario.shards]
        rng.shuffle(self._items)

    # Random actions.

    def disturb(self) -> None:
        """Let data appear, and connections begin and end."""
        for _ in range(self.actions):
            choice = self.rng.random()
            if choice < 0.6 and self._items:
                self._appear()
            elif choice < 0.86 and len(self.links) < _LINKS_MAX:
                self._connect(*self.rng.sample(range(len(self.replicas)), 2))
            elif choice < 0.93 and len(self.links) < _LINKS_MAX:
                self._connect(self.rng.randrange(len(self.replicas)), len(self.replicas))
            elif self.links:
                self._end(self.rng.choice(self.links))
            self.run_until(self.now_ms + self.rng.randint(0, _STEP_MS))
            self._end_dropped()

    def _appear(self) -> None:
        is_node, space, cid, data = self._items.pop()
        for replica in self.rng.sample(self.replicas, self.rng.randint(1, len(self.replicas))):
            if is_node:
                replica.put(space, cid, data)
            else:
                replica.add_shard(space, cid, data)
            self._offer_new(replica, space, cid)

    def _offer_new(self, replica: MemoryReplica, space: bytes, cid: Cid) -> None:
        for name, node in self.nodes.items():
            if node.replica is replica:
                node.offer_new(space, cid)
                self.stepped(name)

    def _settings(self) -> ExchangeSettings:
        # At the end nothing may be left out because of limits.
        if not self._items:
            return ExchangeSettings("bound", bytes(32), spaces=self.scenario.spaces)
        return ExchangeSettings(
            "bound",
            bytes(32),
            spaces=self.scenario.spaces,
            wants_in_flight=self.rng.choice((1, 3, 256)),
            wanted_bytes=self.rng.choice((1, 1_000_000, 67_108_864)),
            nodes_known_of=self.rng.choice((1, 3, 10_000)),
            max_frame=self.rng.choice(_FRAMES),
        )

    def _connect(self, first: int, second: int) -> SimulatedLink:
        """Connect two replicas; the index after the last replica is a liar that has everything."""
        names = []
        for at, far in ((first, second), (second, first)):
            is_liar = at == len(self.replicas)
            names.append(f"{'liar' if is_liar else at}, end {next(self._names)}")
            self.nodes[names[-1]] = DagNode(
                self.rng,
                self._all_knowing() if is_liar else self.replicas[at],
                self._settings(),
                self._keys[far],
                self._offer_new,
                is_liar=is_liar,
            )
        link = self.add_link(*names)
        self.connect(link)
        return link

    def _all_knowing(self) -> MemoryReplica:
        replica = MemoryReplica()
        for space, cid, block in self.scenario.nodes:
            replica.put(space, cid, block)
        for space, cid, data in self.scenario.shards:
            replica.add_shard(space, cid, data)
        return replica

    def _end(self, link: SimulatedLink) -> None:
        self.cut(link)
        self.links.remove(link)
        for end in link.ends:
            del self.nodes[end]

    def _end_dropped(self) -> None:
        for link in list(self.links):
            nodes = [self.nodes[end] for end in link.ends]
            if any(node.exchange.dropped is not None for node in nodes):
                if not any(node.is_liar for node in nodes):
                    raise InvariantError(f"dropped: {[node.exchange.dropped for node in nodes]}")
                self._end(link)

    # The end.

    def calm_down(self) -> None:
        """Connect neighbours in a row until they are done."""
        while self._items:
            self._appear()
        for link in list(self.links):
            self._end(link)
        pairs = list(pairwise(range(len(self.replicas))))
        # A proof is requested once the publish that names it is known, so one more pass is needed than there
        # and back.
        for first, second in (*pairs, *reversed(pairs), *pairs):
            link = self._connect(first, second)
            self.settle(_QUIET_MS)
            self._end_dropped()
            if not all(self.nodes[end].is_done for end in link.ends):
                raise InvariantError("a connection came to rest, and is not done")
            self._end(link)

    def check(self) -> None:
        """Check that all replicas hold the same data, and only data of the scenario."""
        self._check_kept()
        self._check_equal()

    def _check_kept(self) -> None:
        made = {cid for _, cid, _ in self.scenario.nodes}
        shards = {cid for _, cid, _ in self.scenario.shards}
        for replica in self.replicas:
            if not replica.blocks.keys() <= made or not replica.shard_bytes.keys() <= shards:
                raise InvariantError("data is stored that no node made")

    def _check_equal(self) -> None:
        views = [self._view(replica) for replica in self.replicas]
        for view in views[1:]:
            different = [name for name, value in view.items() if value != views[0][name]]
            if different:
                raise InvariantError(f"replicas differ in {different}")

    def _view(self, replica: MemoryReplica) -> dict[str, object]:
        spaces = self.scenario.spaces
        return {
            "nodes": {space: sorted(replica.places.get(space, ())) for space in spaces},
            "shards": {space: list(replica.shards(space)) for space in spaces},
            "heads": {space: replica.dag_heads(space) for space in spaces},
            "order": {space: replica.machine.order(space).order() for space in spaces},
            "states": {space: replica.machine.states(space) for space in spaces},
        }
