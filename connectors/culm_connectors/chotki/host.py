"""The replica that an edge's sessions belong to: changes that take effect on a connection go to Kafka.

`EdgeShared` is the state that all connections of an edge share, `EdgeHost` the host of one session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from culm_connectors.chotki.errors import ID_REUSED, LATE, LOOP, REPEATED, Warned
from culm_connectors.chotki.feed.packet_tail import PacketTail
from culm_connectors.chotki.local_state.snapshot import EpochSnapshot
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.metrics import ChotkiMetrics
from culm_connectors.chotki.publisher import Partitions, ReplicaPublisher
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.spool import DiskSpool, SpoolFolder
from culm_connectors.chotki.storage_limits import StorageLimits
from culm_connectors.chotki.warnings.packet_ids import PacketArrival
from culm_connectors.edge.fair_turns import LoopTurns
from culm_connectors.kafka import BatchProducer
from culm_models.chotki import events
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import LivePacket
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.sync.open_syncs import OpenSync
from culm_topics.kafka.clients import KafkaSettings

_TOLD: Mapping[PacketArrival, tuple[str, str]] = {
    PacketArrival.LATE: (
        LATE,
        "is older than the last change of its source: the writer was restored from an old copy",
    ),
    PacketArrival.REPEATED: (REPEATED, "came before"),
    PacketArrival.LOOP: (LOOP, "came before by another connection: the tree of replicas has a circle"),
    PacketArrival.REUSED: (ID_REUSED, "came before with other bytes"),
}


@dataclass(slots=True)
class EdgeSource:
    """The edge's own source and the progress of its last id."""

    src: int
    counter: int = 0
    edges: Collection[int] = ()
    """Current sources of all edges of the deployment."""

    def raise_to(self, pro: int) -> None:
        """Raise the counter to an id of the source that was seen."""
        self.counter = max(self.counter, pro)


@dataclass(frozen=True, slots=True)
class EdgeShared:
    """State that all connections of an edge share."""

    store: ChotkiStore
    tail: PacketTail
    source: EdgeSource
    producer: BatchProducer
    kafka: KafkaSettings
    partitions: Partitions
    spools: SpoolFolder
    limits: StorageLimits
    settings: ChotkiEdgeSettings
    turns: LoopTurns
    """Turns in which diffs are made."""
    edge: bytes
    report: Callable[[Any, events.SessionEvent], None]
    """Receives the events of a connection."""
    metrics: ChotkiMetrics


class EdgeHost:
    """Implements `Host` for the session of one connection."""

    def __init__(
        self, shared: EdgeShared, publisher: ReplicaPublisher, warn: Callable[[Warned], None]
    ) -> None:
        self._shared = shared
        self._warn = warn
        self._publisher = publisher
        self.announced: dict[int, int] = {}
        """Vector of the own handshake."""
        self.covered: dict[int, int] = {}
        """Offsets up to which the snapshot of the handshake contains `chotki.packets`, by partition."""

    @property
    def src(self) -> int:
        """Source of this edge."""
        return self._shared.source.src

    def is_ours(self, src: int) -> bool:
        """Whether a source belongs to this edge or to another edge of the deployment."""
        return src in self._shared.source.edges or src == self.src

    @property
    def counter(self) -> int:
        """Progress of the last id that the own source issued."""
        return self._shared.source.counter

    def raise_counter(self, pro: int) -> None:
        """Raise the counter to an id of the own source that was received."""
        self._shared.source.raise_to(pro)

    def snapshot(self) -> EpochSnapshot:
        """Return the store at its newest epoch. Raises `StoreIncomplete`."""
        snapshot = self._shared.store.snapshot()
        self.announced, self.covered = dict(snapshot.vector), dict(snapshot.packets)
        return snapshot

    def open_spool(self) -> DiskSpool:
        """Return a spool for the fields of an open sync."""
        return DiskSpool(self._shared.spools)

    def apply(self, live: LivePacket) -> None:
        """Produce a live packet. It takes effect once the job has merged it.

        Raises `RecordTooLarge` if it cannot be stored.
        """
        src, pro = live.id.src, live.entry.pro
        self._shared.limits.check_source(src)
        self._shared.limits.check_live(live.writes)
        arrival = self._shared.tail.ids.arrives(src, pro, live.record, self._publisher.origin)
        if arrival in _TOLD:
            code, text = _TOLD[arrival]
            self._warn(Warned(code, f"{live.letter} {live.id} {text}"))
        if arrival in (PacketArrival.REPEATED, PacketArrival.LOOP):
            # The packet is in Kafka already. Only the progress of this connection changes.
            self._publisher.announced({src: pro})
            return
        self._publisher.packet(live)

    def commit_sync(self, sync: OpenSync, vectors: list[tuple[Id, bytes]]) -> Id | None:
        """Produce a whole sync. Returns the own entry of its vector if it is beyond the counter.

        Raises `RecordTooLarge` if the vector does not fit into a record of Kafka. The publisher checks the
        fields and the vectors of blocks before it produces them.
        """
        spool = sync.spool
        assert isinstance(spool, DiskSpool), "opened here"
        self._shared.limits.check_vector(sync.vector)
        vector = parse_vector(sync.vector)
        after = self.announced if sync.is_peers else self._publisher.received_up_to
        self._publisher.sync(sync.t, spool, vectors, vector, after)
        spool.keep()
        own = vector.get(self.src, 0)
        if own <= self.counter:
            return None
        self.raise_counter(own)
        return Id(self.src, own)

    def forward(self, session: object, record: bytes) -> None:
        """Do nothing: other sessions get the record from Kafka."""
