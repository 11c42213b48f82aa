"""Trees of replicas under faults, all from one seed.

A run has two parts. In the first, changes are made everywhere while links come up, carry a few bytes and
break, and replicas restart. In the second, there are no changes, and only replicas themselves end links. Then
all stores must be equal, and equal to the merge of every change that was ever made.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.log0 import fresh_store
from culm_models.chotki.packets.handshake import LIVE, MODE_MAX, READ, WRITE
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.replica import writes_of_live
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import MemoryStore
from culm_models.testing.chotki.node import Catalogue, ChotkiNode
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import Faults, SimulatedLink, Simulation


@dataclass(frozen=True, slots=True)
class ChotkiScenario:
    """Parameters of a run. Chances are in [0, 1], per step.

    `parents`: for every replica except the first, the replica that it dials.
    """

    parents: tuple[int, ...]
    compats: tuple[Compat, ...]
    settings: tuple[ChotkiSettings, ...]
    steps: int
    piece_bytes: tuple[int, ...]
    """Maximum sizes of the pieces that arrive."""
    delay_ms: int
    """Longest delay of a piece; a step takes about 5 ms."""
    connect: float
    cut: float
    change: float
    pause: float
    pause_ms: int
    restart: float
    odd_modes: float
    """Share of connections that are one-shot or one-way."""
    leap: float
    """Share of changes before which a source leaves the rest of its block unused."""


def draw_scenario(rng: random.Random, *, steps: int = 600) -> ChotkiScenario:
    """Draw a tree of 2 to 20 replicas, of which none, some or all imitate Go."""
    count = rng.randint(2, rng.choice((3, 6, 20)))
    depth_one = rng.random() < 0.2
    parents = tuple(0 if depth_one else rng.randrange(number) for number in range(1, count))
    share = rng.choice((0.0, 0.0, 0.5, 1.0))
    compats = tuple(Compat.GO if rng.random() < share else Compat.DEFAULT for _ in range(count))
    return ChotkiScenario(
        parents=parents,
        compats=compats,
        settings=tuple(draw_settings(rng, compat) for compat in compats),
        steps=steps + 30 * count,
        piece_bytes=rng.choice(((1, 4, 7), (1, 20, 60), (1, 100, 400), (1, 400, 100_000))),
        delay_ms=rng.choice((2, 10, 100)),
        connect=rng.choice((0.05, 0.2)),
        cut=rng.choice((0.0, 0.01, 0.05)),
        change=rng.choice((0.05, 0.2, 0.4)),
        pause=rng.choice((0.01, 0.05)),
        pause_ms=rng.choice((100, 5_000, 25_000)),
        restart=rng.choice((0.0, 0.005)),
        odd_modes=rng.choice((0.0, 0.3)),
        leap=rng.choice((0.0, 0.05)),
    )


def draw_settings(rng: random.Random, compat: Compat) -> ChotkiSettings:
    """Draw the settings of one replica, with limits so small that they are reached."""
    settings = ChotkiSettings.for_compat(compat)
    return replace(
        settings,
        max_parcel_bytes=rng.choice((1, 60, 300, settings.max_parcel_bytes)),
        sync_cut_bytes=rng.choice((1, 100, 1_000, settings.sync_cut_bytes)),
        max_open_syncs=rng.choice((4, settings.max_open_syncs)),
        sync_expiry_ms=rng.choice((40_000, settings.sync_expiry_ms)),
    )


def draw_mode(rng: random.Random, odd: float) -> int:
    """Draw the mode of one end of a connection."""
    if rng.random() >= odd:
        return MODE_MAX
    return rng.choice((READ | WRITE, READ | LIVE, READ, WRITE, WRITE | LIVE, LIVE, 0))


_CALM_ROUNDS: Final = 400
_STEP_MS: Final = 10


class ChotkiSimulation(Simulation[ChotkiNode]):
    """One run of one tree, with `steps` steps."""

    def __init__(self, seed: int, *, steps: int = 600) -> None:
        super().__init__(seed)
        self.scenario = scenario = draw_scenario(self.rng, steps=steps)
        self.note(str(scenario))
        self.faults = Faults(delay_ms=(1, scenario.delay_ms), piece_bytes=scenario.piece_bytes)
        for number, (settings, compat) in enumerate(zip(scenario.settings, scenario.compats, strict=True)):
            self.nodes[str(number)] = ChotkiNode(number, settings, compat, self.rng)
        for child, parent in enumerate(scenario.parents, 1):
            self.add_link(str(child), str(parent))
        self.catalogue = Catalogue()
        self.ledger = MemoryStore()
        common: dict[bytes, bytes] = {}
        for node in self.nodes.values():
            for key, value in fresh_store(node.src, f"node {node.number}").items():
                if common.setdefault(key, value) != value or key[0] == ord("V"):
                    self.ledger.merge([(key, value, None)])
        self.ledger.merge((key, value, None) for key, value in common.items())

    @property
    def refused(self) -> Counter[str]:
        """Codes with which sessions ended, with their counts."""
        return sum((node.refused for node in self.nodes.values()), Counter())

    def disturb(self) -> None:
        """Make changes while links and replicas fail."""
        rng, scenario = self.rng, self.scenario
        for _ in range(scenario.steps):
            if rng.random() < scenario.change:
                self._change(rng.choice(list(self.nodes)))
            link = rng.choice(self.links)
            if not link.is_up:
                if rng.random() < scenario.connect:
                    self._connect(link, [draw_mode(rng, scenario.odd_modes) for _ in range(2)])
            elif rng.random() < scenario.cut:
                self.cut(link)
            if rng.random() < scenario.pause:
                self._pause(rng.randint(1, scenario.pause_ms))
            if rng.random() < scenario.restart:
                name = rng.choice(list(self.nodes))
                self.cut_off(name)
                self.nodes[name].restart()
            self.run_until(self.now_ms + rng.randint(0, _STEP_MS))

    def _change(self, name: str) -> None:
        node = self.nodes[name]
        if self.rng.random() < self.scenario.leap:
            node.leap()
        committed = node.change(self.catalogue, self.now_ms)
        self.note(f"node {name} made {committed.packet[:1].decode()} {committed.id}")
        self.ledger.merge(writes_of_live(read_live(parse(committed.packet), committed.packet)))
        self.stepped(name)

    def _connect(self, link: SimulatedLink, modes: list[int]) -> None:
        for end, mode in zip(link.ends, modes, strict=True):
            self.nodes[end].modes[link.other_end(end)] = mode
        self.connect(link)

    def _pause(self, pause_ms: int) -> None:
        """Let time pass in which nothing arrives."""
        self.now_ms += pause_ms
        self.tick_all()

    def calm_down(self) -> None:
        """Open full-duplex sessions until all of them last."""
        self.faults = Faults(delay_ms=(0, 1))
        for link in self.links:
            modes = [self.nodes[end].modes.get(link.other_end(end)) for end in link.ends]
            if link.is_up and modes != [MODE_MAX, MODE_MAX]:
                self.cut(link)
        for _ in range(_CALM_ROUNDS):
            for link in self.links:
                if not link.is_up:
                    self._connect(link, [MODE_MAX, MODE_MAX])
            self.settle()
            if all(link.is_up for link in self.links):
                return
            self._pause(1)
        raise InvariantError("replicas keep ending their sessions")

    def check(self) -> None:
        """Check that every store holds all changes."""
        expected = self.ledger.values()
        for name, node in self.nodes.items():
            stored = node.replica.store.values()
            if stored != expected:
                keys = sorted(key for key in stored.keys() | expected if stored.get(key) != expected.get(key))
                shown = [(key.hex(), stored.get(key), expected.get(key)) for key in keys[:3]]
                raise InvariantError(f"node {name} differs in {len(keys)} keys: {shown}")
