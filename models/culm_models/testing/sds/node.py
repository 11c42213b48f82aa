"""A node of a simulated SDS channel: the driver around one `Channel`, with its own clock and a disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from culm_models.sds.channel import Channel
from culm_models.sds.events import ChannelOutput, FetchRequest
from culm_models.testing.errors import InvariantError
from culm_models.testing.sds.scenario import SdsScenario
from culm_models.testing.sds.witness import Ledger, Witness
from culm_models.testing.simulation import SimulatedNode

CHANNEL_ID = "simulated"
STORE = "store"
"""The sender of fetched messages."""


@dataclass(slots=True)
class Disk:
    """The persisted data: the journal in chunks."""

    chunks: list[bytes] = field(default_factory=list)
    mark: int = 0


@dataclass(slots=True)
class SdsNode(SimulatedNode):
    """One node. Times passed to it are true times; its channel receives them with the node's skew."""

    number: int
    scenario: SdsScenario
    ledger: Ledger
    now_ms: int
    channel: Channel = field(init=False)
    witness: Witness = field(init=False)
    disk: Disk = field(init=False)
    past: list[Witness] = field(default_factory=list)
    """The witnesses before each loss of state."""
    is_up: bool = True
    fetches: list[FetchRequest] = field(default_factory=list)
    """Fetches that are not answered yet."""
    queued: list[tuple[str | None, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin(self.now_ms)

    @property
    def participants(self) -> tuple[str, ...]:
        """Ids of the participants that the node hosts."""
        return tuple(f"node-{self.number}/{index}" for index in range(self.scenario.hosted[self.number]))

    def local_ms(self, now_ms: int) -> int:
        """Convert a true time to this node's clock."""
        return now_ms + self.scenario.skews_ms[self.number]

    def next_due_ms(self) -> int | None:
        """Return the true time of the next tick; None while down, or if nothing is to be done."""
        due_ms = self.channel.next_due_ms() if self.is_up else None
        return None if due_ms is None else due_ms - self.scenario.skews_ms[self.number]

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        """Process a message, unless the node is down."""
        if self.is_up:
            source = STORE if sender == STORE else None
            self.take(self.channel.receive(data, self.local_ms(now_ms), source=source), now_ms)

    def tick(self, now_ms: int) -> None:
        """Do the work that is due."""
        self.take(self.channel.tick(self.local_ms(now_ms)), now_ms)

    def take(self, output: ChannelOutput, now_ms: int) -> None:
        """Check the output of a step, and queue its messages."""
        for outbound in output.send:
            self.ledger.broadcast(outbound)
            self.queued.append((None, outbound.wire))
        self.witness.saw(output, now_ms, self.scenario.settings)
        self.fetches += output.fetch

    def persist(self) -> None:
        """Append new data to the disk, as a driver does after each step."""
        self.disk.chunks.append(self.channel.journal_since(self.disk.mark))
        self.disk.mark = self.channel.journal_mark
        self.channel.journal_kept(self.disk.mark)

    def restart(self, now_ms: int) -> None:
        """Restart with all state. Raises `InvariantError` if the channel is not the same as before."""
        self.persist()
        head, before = self.channel.head(), self.channel.status()
        channel = self._fresh(now_ms)
        for chunk in self.disk.chunks:
            channel.apply_journal(chunk)
        channel.restore_head(head)
        if channel.status() != before or channel.head() != head:
            raise InvariantError(f"node {self.number} is not the same after a restart")
        self.channel = channel

    def restart_empty(self, now_ms: int) -> None:
        """Restart without state, under the same participant ids."""
        self.past.append(self.witness)
        self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        self.channel = self._fresh(now_ms)
        self.disk = Disk()
        self.witness = Witness(self.ledger, shared=len(self.participants) > 1)
        for participant_id in self.participants:
            self.channel.join(participant_id, self.local_ms(now_ms))

    def _fresh(self, now_ms: int) -> Channel:
        scenario = self.scenario
        seed = f"{self.number}, life {len(self.past)}".encode()
        return Channel(
            CHANNEL_ID, scenario.profile, scenario.settings, now_ms=self.local_ms(now_ms), seed=seed
        )
