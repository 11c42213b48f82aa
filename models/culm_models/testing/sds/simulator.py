"""SDS channels under faults, all from one seed: the same seed gives the same run, event by event.

A run has two parts. In the first participants write while messages are lost, doubled, late and out of
order, the network splits and heals, and nodes go down and come back with or without their state. In the
second nothing fails any more, everyone says a last word, and within a bounded time all must have the same log
and know the outcome of everything they sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from culm_models.sds.output import ChannelOutput, Fetch, Outbound
from culm_models.sds.wire.messages import Message
from culm_models.testing.errors import InvariantError, SimulationError
from culm_models.testing.sds.node import SdsNode
from culm_models.testing.sds.scenario import Scenario, draw_scenario
from culm_models.testing.sds.witness import Ledger

START_MS: Final = 1_760_000_000_000
_CALM_MS: Final = 8 * 3_600_000
_LAST_WORD_MS: Final = 300_000
_LAST_WORDS: Final = 24
_DOWN_MS: Final = 90_000
_SPLIT_MS: Final = 180_000
_HEAD: Final = 16
_MOST_STILL: Final = 10_000
"""So many steps without the time going on mean that a node asks for ticks in vain."""


@dataclass(slots=True)
class SdsSimulation:
    """One run of one channel."""

    seed: int
    scenario: Scenario
    rng: random.Random
    now_ms: int = START_MS
    ledger: Ledger = field(init=False)
    nodes: list[SdsNode] = field(init=False)
    store: dict[str, bytes] = field(default_factory=dict)
    calm: bool = False
    trace: list[str] = field(default_factory=list)
    _agenda: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _steps: int = 0
    _still: int = 0
    _planned: list[int | None] = field(init=False)
    _sides: list[int] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        count = len(self.scenario.hosted)
        self.ledger = Ledger(self.scenario.profile)
        self.nodes = [SdsNode(number, self.scenario, self.ledger, self.now_ms) for number in range(count)]
        self._planned = [None] * count
        self._sides = [0] * count

    def run(self) -> None:
        """Both parts. Raises `SimulationError`."""
        try:
            self._plan_faults()
            self._run_until(START_MS + self.scenario.faults_ms)
            self._calm_down()
            self._check()
        except Exception as error:
            steps = "\n  ".join(self.trace[-20:])
            raise SimulationError(
                f"seed {self.seed}: {type(error).__name__}: {error}\n  {self.scenario}\n  {steps}\n"
                f"replay with CULM_SIM_SEED={self.seed}"
            ) from error

    # Faults.

    def _plan_faults(self) -> None:
        scenario, end_ms = self.scenario, self.scenario.faults_ms
        at_ms = 0
        while (at_ms := at_ms + 1 + int(self.rng.expovariate(1 / scenario.pause_ms))) < end_ms:
            self._at(START_MS + at_ms, self._write)
        for _ in range(scenario.partitions):
            at_ms = self.rng.randrange(end_ms)
            self._at(START_MS + at_ms, self._split)
            self._at(START_MS + at_ms + self.rng.randint(1_000, _SPLIT_MS), self._heal)
        for _ in range(scenario.restarts):
            self._at(START_MS + self.rng.randrange(end_ms), self._go_down)

    def _write(self) -> None:
        node = self.rng.choice(self.nodes)
        if not node.is_up:
            return
        self._send(node, ephemeral=self.rng.random() < self.scenario.ephemeral)

    def _send(self, node: SdsNode, *, ephemeral: bool = False) -> None:
        self._written += 1
        # Equal contents are different messages.
        content = f"words {self._written // 3}".encode()
        participant_id = self.rng.choice(node.participants)
        output = node.channel.send(participant_id, content, node.local_ms(self.now_ms), ephemeral=ephemeral)
        self._step(node, output)

    def _split(self) -> None:
        self._sides = [self.rng.randrange(2) for _ in self.nodes]
        self._note(f"split {self._sides}")

    def _heal(self) -> None:
        self._sides = [0] * len(self.nodes)
        self._note("healed")

    def _go_down(self) -> None:
        node = self.rng.choice(self.nodes)
        if not node.is_up:
            return
        node.is_up = False
        self._note(f"node {node.number} down")
        forgets = self.rng.random() < self.scenario.forgetful
        self._at(self.now_ms + self.rng.randint(1, _DOWN_MS), lambda: self._come_back(node, forgets))

    def _come_back(self, node: SdsNode, forgets: bool) -> None:
        if node.is_up:
            return
        self._note(f"node {node.number} up{', empty' if forgets else ''}")
        node.is_up = True
        if forgets:
            node.restart_empty(self.now_ms)
        else:
            node.restart(self.now_ms)
        self._compare(node)

    # The network.

    def _step(self, node: SdsNode, output: ChannelOutput) -> None:
        """What a node's step gave goes on its way."""
        for outbound in output.send:
            message = self.ledger.broadcast(outbound)
            self._broadcast(node, outbound, message)
        node.saw(output, self.now_ms)
        for fetch in output.fetch:
            self._fetch(node, fetch)
        if self.rng.random() < 0.1:
            node.persist()
        self._plan_tick(node)

    def _broadcast(self, node: SdsNode, outbound: Outbound, message: Message) -> None:
        self._note(f"node {node.number} {outbound.kind} {outbound.message_id[:8]}")
        if message.kind == "content":
            self.store[outbound.message_id] = outbound.wire
        for other in self.nodes:
            if other is node and self.rng.random() >= self.scenario.echo:
                continue
            if self._sides[other.number] == self._sides[node.number]:
                self._carry(other, outbound.wire, None)

    def _carry(self, node: SdsNode, wire: bytes, source: str | None) -> None:
        copies = 1
        if not self.calm:
            copies = int(self.rng.random() >= self.scenario.loss)
            copies += copies and int(self.rng.random() < self.scenario.duplication)
        for _ in range(copies):
            at_ms = self.now_ms + self.rng.randint(1, 50 if self.calm else self.scenario.delay_ms)
            self._at(at_ms, lambda: self._arrive(node, wire, source))

    def _arrive(self, node: SdsNode, wire: bytes, source: str | None) -> None:
        if node.is_up:
            self._step(node, node.channel.receive(wire, node.local_ms(self.now_ms), source=source))

    def _fetch(self, node: SdsNode, fetch: Fetch) -> None:
        if self.scenario.store:
            for entry in fetch.entries:
                if (wire := self.store.get(entry.message_id)) is not None:
                    self._carry(node, wire, "store")

    def _compare(self, node: SdsNode) -> None:
        """What a driver does on connecting: ask the store what is newest."""
        head: list[tuple[int, str]] = []
        if self.scenario.store:
            messages = (self.ledger.messages[message_id] for message_id in self.store)
            newest = sorted((one.lamport_timestamp or 0, one.message_id) for one in messages)
            head = newest[-_HEAD:]
        self._step(node, node.channel.compare_head(head, node.local_ms(self.now_ms)))

    # Time.

    def _at(self, at_ms: int, action: Callable[[], None]) -> None:
        self._steps += 1
        heappush(self._agenda, (at_ms, self._steps, action))

    def _plan_tick(self, node: SdsNode) -> None:
        due_ms = node.next_due_ms()
        planned = self._planned[node.number]
        if due_ms is not None and (planned is None or due_ms < planned):
            self._planned[node.number] = due_ms
            self._at(max(due_ms, self.now_ms), lambda: self._tick(node, due_ms))

    def _tick(self, node: SdsNode, planned_ms: int) -> None:
        if self._planned[node.number] != planned_ms:
            return
        self._planned[node.number] = None
        due_ms = node.next_due_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self._step(node, node.channel.tick(node.local_ms(self.now_ms)))
        else:
            self._plan_tick(node)

    def _run_until(self, end_ms: int) -> None:
        while self._agenda and self._agenda[0][0] <= end_ms:
            at_ms, _, action = heappop(self._agenda)
            self._still = self._still + 1 if at_ms == self.now_ms else 0
            if self._still > _MOST_STILL:
                raise InvariantError("the time does not go on")
            self.now_ms = max(self.now_ms, at_ms)
            action()
        self.now_ms = max(self.now_ms, end_ms)

    def _note(self, text: str) -> None:
        self.trace.append(f"{(self.now_ms - START_MS) / 1000:.1f} s: {text}")

    # The calm.

    def _calm_down(self) -> None:
        self._note("calm")
        self.calm = True
        self._heal()
        for node in self.nodes:
            self._come_back(node, False)
            self._compare(node)
        for round_number in range(_LAST_WORDS):
            if round_number and not self._differences():
                break
            for node in self.nodes:
                self._send(node)
            self._run_until(self.now_ms + _LAST_WORD_MS)
        self._run_until(self.now_ms + _CALM_MS)

    def _differences(self) -> str:
        """Why the channel is not settled; empty when it is."""
        everything = set(self.ledger.wires)
        logs = [node.channel.status().log for node in self.nodes]
        complete = {message_id for log in logs for _, message_id in log}
        for node, log in zip(self.nodes, logs, strict=True):
            lacking = complete - {message_id for _, message_id in log}
            if unexplained := lacking - self._excused(node, lacking):
                return f"node {node.number} lacks {sorted(unexplained)[:3]}, {len(unexplained)} in all"
            if not complete <= everything:
                return f"node {node.number} holds what nobody sent"
        return ""

    def _excused(self, node: SdsNode, lacking: set[str]) -> set[str]:
        """What a node may lack for ever: nothing where there is a store."""
        if self.scenario.store:
            return set()
        # Profile nim has no syncs to name what is lacking. And who lost everything learns the past from what
        # the present names: behind a message that nobody can repeat there may be more that nobody names.
        if self.scenario.profile == "nim" or node.past:
            return lacking
        return node.witness.lost

    def _check(self) -> None:
        if difference := self._differences():
            raise InvariantError(difference)
        for node in self.nodes:
            status = node.channel.status()
            if [message_id for _, message_id in status.log] != node.witness.log:
                raise InvariantError(f"positions do not give the log of node {node.number}")
            if list(status.log) != sorted(status.log):
                raise InvariantError(f"the log of node {node.number} is out of order")
            if status.incoming or status.missing or status.quarantined:
                raise InvariantError(
                    f"node {node.number} waits: {status.incoming[:2]}, {status.missing[:2]}, "
                    f"{status.quarantined[:2]}"
                )
            if status.outgoing or node.witness.unsettled:
                raise InvariantError(f"node {node.number} does not know of {node.witness.unsettled}")
            kept = node.channel.journal_whole() + node.channel.head()
            for message_id in node.witness.ephemeral:
                if message_id.encode() in kept:
                    raise InvariantError(f"the ephemeral {message_id} is kept at node {node.number}")
            if status.next_due_ms is not None:
                raise InvariantError(f"node {node.number} never rests")


def simulate_sds(seed: int, scenario: Scenario | None = None, *, messages: int = 100) -> SdsSimulation:
    """Run one simulation to its end, of a scenario drawn by the seed. Raises `SimulationError`."""
    rng = random.Random(seed)
    simulation = SdsSimulation(seed, scenario or draw_scenario(rng, messages=messages), rng)
    simulation.run()
    return simulation
