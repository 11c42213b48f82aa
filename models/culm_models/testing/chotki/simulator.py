"""Trees of replicas under faults, all from one seed: the same seed gives the same run, step by step.

A run has two parts. In the first things are changed everywhere while links come up, carry a few bytes and
break, and replicas restart. In the second nothing is changed and no link breaks but those that a replica
ends itself: then all stores must be equal, and be what every change that was ever made comes to when it is
merged at one place.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from culm_models.chotki.events import Refused
from culm_models.chotki.log0 import fresh_store
from culm_models.chotki.packets.handshake import MODE_MAX
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.replica import Output, writes_of_live
from culm_models.chotki.store import MemoryStore
from culm_models.testing.chotki.node import Catalogue, Node
from culm_models.testing.chotki.scenario import Scenario, draw_mode, draw_scenario
from culm_models.testing.errors import InvariantError, SimulationError
from culm_models.testing.memory_link import MemoryLink

START_MS: Final = 1_760_000_000_000
_CALM_ROUNDS: Final = 400
_MAY_BE_REFUSED: Final = frozenset(
    {
        "chotki.sync_unknown",  # another replica's sync passed by when the session began
        "chotki.sync_count",
        "chotki.sync_expired",
        "chotki.handshake_timeout",
        "chotki.ping_timeout",
        "chotki.deaf",
    }
)


@dataclass(slots=True)
class ChotkiSimulation:
    """One run of one tree. `refused` counts the codes with which sessions ended."""

    seed: int
    scenario: Scenario
    rng: random.Random
    now_ms: int = START_MS
    nodes: list[Node] = field(init=False)
    links: list[MemoryLink] = field(init=False)
    ledger: MemoryStore = field(init=False)
    catalogue: Catalogue = field(default_factory=Catalogue)
    refused: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    _modes: dict[bytes, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.nodes = [
            Node(number, settings, compat, self.rng)
            for number, (settings, compat) in enumerate(zip(scenario.settings, scenario.compats, strict=True))
        ]
        self.links = [
            MemoryLink(b"%d" % child, b"%d" % parent) for child, parent in enumerate(scenario.parents, 1)
        ]
        self.ledger = MemoryStore()
        common: dict[bytes, bytes] = {}
        for node in self.nodes:
            for key, value in fresh_store(node.src, f"node {node.number}").items():
                if common.setdefault(key, value) != value or key[0] == ord("V"):
                    self.ledger.merge([(key, value, None)])
        self.ledger.merge((key, value, None) for key, value in common.items())

    def run(self) -> None:
        """Both parts. Raises `SimulationError`."""
        try:
            for _ in range(self.scenario.steps):
                self._step()
            self._calm_down()
            self._check()
        except Exception as error:
            steps = "\n  ".join(self.trace[-20:])
            raise SimulationError(
                f"seed {self.seed}: {type(error).__name__}: {error}\n  {self.scenario}\n  {steps}\n"
                f"replay with CULM_SIM_SEED={self.seed}"
            ) from error

    # The first part.

    def _step(self) -> None:
        rng, scenario = self.rng, self.scenario
        link = rng.choice(self.links)
        if rng.random() < scenario.change:
            self._change(rng.choice(self.nodes))
        if not link.is_up:
            if rng.random() < scenario.connect:
                self._connect(link, [draw_mode(rng, scenario.odd_modes) for _ in range(2)])
        elif rng.random() < scenario.cut:
            self._cut(link)
        if rng.random() < scenario.pause:
            self._pause(rng.randint(1, scenario.pause_ms))
        if rng.random() < scenario.restart:
            self._restart(rng.choice(self.nodes))
        for _ in range(4):
            self._deliver(rng.choice(self.links), rng.randint(1, scenario.piece_bytes))

    def _change(self, node: Node) -> None:
        if self.rng.random() < self.scenario.leap:
            node.leap()
        committed = node.change(self.catalogue, self.now_ms)
        self._note(f"node {node.number} made {committed.packet[:1].decode()} {committed.id}")
        self.ledger.merge(writes_of_live(read_live(parse(committed.packet), committed.packet)))
        self._write(node, committed.output)

    def _connect(self, link: MemoryLink, modes: list[int]) -> None:
        link.connect()
        self._modes[link.dialler] = modes
        self._note(f"{link.ends} connect with {modes}")
        for end, mode in zip(link.ends, modes, strict=True):
            name = link.other_end(end).decode()
            self._write(self._node(end), self._node(end).replica.open_session(name, self.now_ms, mode=mode))

    def _cut(self, link: MemoryLink) -> None:
        self._note(f"{link.ends} are cut")
        link.cut()
        for end in link.ends:
            name = link.other_end(end).decode()
            sessions = self._node(end).replica.sessions
            if name in sessions and not sessions[name].closed:
                self._node(end).replica.lose_session(name, self.now_ms)

    def _restart(self, node: Node) -> None:
        for link in self.links:
            if link.is_up and b"%d" % node.number in link.ends:
                self._cut(link)
        node.restart()

    def _pause(self, pause_ms: int) -> None:
        self.now_ms += pause_ms
        for node in self.nodes:
            self._write(node, node.replica.tick(self.now_ms))

    def _deliver(self, link: MemoryLink, size: int) -> bool:
        """Bytes to one end or both; whether there were any."""
        moved = False
        for end in self.rng.sample(link.ends, 2):
            if link.is_up and (data := link.towards(end).read(size)):
                moved = True
                name = link.other_end(end).decode()
                node = self._node(end)
                self._write(node, node.replica.receive(name, data, self.now_ms))
        return moved

    # Both parts.

    def _write(self, node: Node, output: Output) -> None:
        """Put on the links what a replica sends; cut those that it closed, once the other end has read."""
        for name, event in output.events:
            if isinstance(event, Refused):
                self.refused[event.code] = self.refused.get(event.code, 0) + 1
                if event.code not in _MAY_BE_REFUSED:
                    raise InvariantError(f"node {node.number} refused {name}: {event.message}")
        own = b"%d" % node.number
        for name, records in output.sends.items():
            link = self._link(own, name.encode())
            if link.is_up:
                link.towards(name.encode()).write(b"".join(records))
        for name in output.closed:
            link = self._link(own, name.encode())
            other = self._node(name.encode())
            while link.is_up and (data := link.towards(name.encode()).read(1 << 20)):
                self._write(other, other.replica.receive(own.decode(), data, self.now_ms))
            if link.is_up:
                self._cut(link)

    def _node(self, end: bytes) -> Node:
        return self.nodes[int(end)]

    def _link(self, one: bytes, other: bytes) -> MemoryLink:
        return next(link for link in self.links if {one, other} == set(link.ends))

    def _note(self, what: str) -> None:
        self.trace.append(f"{self.now_ms - START_MS:>9} {what}")

    # The second part.

    def _calm_down(self) -> None:
        self._note("calm")
        for link in self.links:
            if link.is_up and self._modes[link.dialler] != [MODE_MAX, MODE_MAX]:
                self._cut(link)
        for _ in range(_CALM_ROUNDS):
            for link in self.links:
                if not link.is_up:
                    self._connect(link, [MODE_MAX, MODE_MAX])
            moved = True
            while moved:
                moved = sum(self._deliver(link, 1 << 20) for link in self.links) > 0
            if all(link.is_up for link in self.links):
                return
            self._pause(1)
        raise InvariantError("replicas go on ending their sessions")

    def _check(self) -> None:
        expected = self.ledger.values()
        for node in self.nodes:
            found = node.replica.store.values()
            if found != expected:
                keys = sorted(key for key in found.keys() | expected if found.get(key) != expected.get(key))
                shown = [(key.hex(), found.get(key), expected.get(key)) for key in keys[:3]]
                raise InvariantError(f"node {node.number} differs in {len(keys)} keys: {shown}")


def simulate_chotki(seed: int, scenario: Scenario | None = None, **drawn: int) -> ChotkiSimulation:
    """Run one seed to its end; the scenario is drawn from it unless given. Raises `SimulationError`."""
    rng = random.Random(seed)
    simulation = ChotkiSimulation(
        seed, scenario if scenario is not None else draw_scenario(rng, **drawn), rng
    )
    simulation.run()
    return simulation
