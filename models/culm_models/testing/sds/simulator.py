"""SDS channels under faults, all from one seed.

A run has two parts. In the first, participants write while messages are lost, duplicated, late and out of
order, the network splits and heals, and nodes go down and come back with or without their state. In the
second, there are no more faults, every node sends a last message, and within a limited time all must have the
same log and know the outcome of everything they sent.
"""

from __future__ import annotations

from typing import Final

from culm_models.testing.errors import InvariantError
from culm_models.testing.sds.node import STORE, SdsNode
from culm_models.testing.sds.scenario import SdsScenario, draw_scenario
from culm_models.testing.sds.witness import Ledger
from culm_models.testing.simulation import START_MS, Faults, Simulation

_CALM_MS: Final = 8 * 3_600_000
_LAST_WORD_MS: Final = 300_000
_LAST_WORDS: Final = 24
_DOWN_MS: Final = 90_000
_SPLIT_MS: Final = 180_000
_HEAD: Final = 16


class SdsSimulation(Simulation[SdsNode]):
    """One run of one channel, with about `messages` messages unless a scenario is passed."""

    def __init__(self, seed: int, scenario: SdsScenario | None = None, *, messages: int = 100) -> None:
        super().__init__(seed)
        self.scenario = scenario = scenario or draw_scenario(self.rng, messages=messages)
        self.note(str(scenario))
        self.ledger = Ledger(scenario.profile)
        self.nodes = {
            f"node {number}": SdsNode(number, scenario, self.ledger, self.now_ms)
            for number in range(len(scenario.hosted))
        }
        self.faults = Faults(scenario.loss, scenario.duplication, scenario.echo, (1, scenario.delay_ms))
        self._written = 0

    def disturb(self) -> None:
        """Let participants write while the network and nodes fail."""
        scenario, end_ms = self.scenario, self.scenario.faults_ms
        at_ms = 0
        while (at_ms := at_ms + 1 + int(self.rng.expovariate(1 / scenario.pause_ms))) < end_ms:
            self.at(START_MS + at_ms, self._write_anywhere)
        for _ in range(scenario.partitions):
            at_ms = START_MS + self.rng.randrange(end_ms)
            self.at(at_ms, self.split)
            self.at(at_ms + self.rng.randint(1_000, _SPLIT_MS), self.heal)
        for _ in range(scenario.restarts):
            self.at(START_MS + self.rng.randrange(end_ms), self._go_down)
        self.run_until(START_MS + end_ms)

    def _write_anywhere(self) -> None:
        name = self.rng.choice(list(self.nodes))
        if self.nodes[name].is_up:
            self._write_at(name, ephemeral=self.rng.random() < self.scenario.ephemeral)

    def _write_at(self, name: str, *, ephemeral: bool = False) -> None:
        self._written += 1
        # Messages with equal content are different messages.
        content = f"words {self._written // 3}".encode()
        node = self.nodes[name]
        participant_id = self.rng.choice(node.participants)
        local_ms = node.local_ms(self.now_ms)
        node.take(node.channel.send(participant_id, content, local_ms, ephemeral=ephemeral), self.now_ms)
        self.stepped(name)

    def _go_down(self) -> None:
        name = self.rng.choice(list(self.nodes))
        if not self.nodes[name].is_up:
            return
        self.nodes[name].is_up = False
        self.note(f"{name} down")
        forgets = self.rng.random() < self.scenario.forgetful
        self.at(self.now_ms + self.rng.randint(1, _DOWN_MS), lambda: self._come_back(name, forgets))

    def _come_back(self, name: str, forgets: bool) -> None:
        node = self.nodes[name]
        if node.is_up:
            return
        self.note(f"{name} up{', empty' if forgets else ''}")
        node.is_up = True
        if forgets:
            node.restart_empty(self.now_ms)
        else:
            node.restart(self.now_ms)
        self._compare(name)

    def stepped(self, name: str) -> None:
        """Answer the node's fetches and sometimes persist its data, in addition to the usual steps."""
        node = self.nodes[name]
        fetches, node.fetches = node.fetches, []
        for entry in (entry for fetch in fetches if self.scenario.store for entry in fetch.entries):
            message = self.ledger.messages.get(entry.message_id)
            if message is not None and message.kind == "content":
                self.carry(name, STORE, self.ledger.wires[entry.message_id])
        if self.rng.random() < 0.1:
            node.persist()
        super().stepped(name)

    def _compare(self, name: str) -> None:
        """Compare with the newest messages of the store, as a driver does on connecting."""
        head: list[tuple[int, str]] = []
        if self.scenario.store:
            messages = (message for message in self.ledger.messages.values() if message.kind == "content")
            head = sorted((message.lamport_timestamp or 0, message.message_id) for message in messages)[
                -_HEAD:
            ]
        node = self.nodes[name]
        node.take(node.channel.compare_head(head, node.local_ms(self.now_ms)), self.now_ms)
        self.stepped(name)

    def calm_down(self) -> None:
        """Bring all nodes back and let each send last messages until all have settled."""
        self.faults = Faults(echo=self.scenario.echo)
        self.heal()
        for name in self.nodes:
            self._come_back(name, False)
            self._compare(name)
        for round_number in range(_LAST_WORDS):
            if round_number and not self._differences():
                break
            for name in self.nodes:
                self._write_at(name)
            self.run_until(self.now_ms + _LAST_WORD_MS)
        self.run_until(self.now_ms + _CALM_MS)

    def _differences(self) -> str:
        """Return why the channel is not settled; empty if it is."""
        everything = set(self.ledger.wires)
        logs = [node.channel.status().log for node in self.nodes.values()]
        complete = {message_id for log in logs for _, message_id in log}
        for node, log in zip(self.nodes.values(), logs, strict=True):
            lacking = complete - {message_id for _, message_id in log}
            if unexplained := lacking - self._excused(node, lacking):
                return f"node {node.number} lacks {sorted(unexplained)[:3]}, {len(unexplained)} in all"
            if not complete <= everything:
                return f"node {node.number} holds messages that were not sent"
        return ""

    def _excused(self, node: SdsNode, lacking: set[str]) -> set[str]:
        """Return the messages that a node may be missing forever; empty if there is a store."""
        if self.scenario.store:
            return set()
        # Profile nim has no syncs that name missing messages. A node that lost everything learns the past
        # from what current messages name: behind a message that no node can repeat, there may be more that no
        # message names.
        if self.scenario.profile == "nim" or node.past:
            return lacking
        return node.witness.lost

    def check(self) -> None:
        """Check that all nodes hold the same log and know the outcome of everything they sent."""
        if difference := self._differences():
            raise InvariantError(difference)
        for node in self.nodes.values():
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
