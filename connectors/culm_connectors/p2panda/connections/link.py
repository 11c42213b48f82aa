"""What the driver keeps of one connection to one remote: its queues, limits and what was delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from culm_connectors.edge.serving import Link
from culm_connectors.logs.check_pool import Checked
from culm_connectors.p2panda.connections.budgets import Budget
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.interface import Connection, SendStream
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.wire.messages import EntryMessage, Message
from culm_models.reconciliation.messages import ReconciliationMessage


@dataclass(frozen=True, slots=True)
class Work:
    """A part of what was read: entries with their checks under way, ranges, or one other message."""

    entries: tuple[EntryMessage, ...] = ()
    checking: asyncio.Future[list[Checked[OperationFacts]]] | None = None
    ranges: tuple[ReconciliationMessage, ...] = ()
    other: Message | None = None


@dataclass(slots=True)
class Deliveries:
    """Heights by stream offset: what the remote has once its transport acknowledges that many bytes.

    One set waits for acknowledgement, the next one gathers meanwhile: bounded by the logs that are touched.
    """

    gathering: dict[LogKey, int] = field(default_factory=dict)
    offset: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, log: LogKey, seq_num: int, offset: int) -> None:
        """The entry `seq_num` of `log` ends at this offset of the stream."""
        self.gathering[log] = max(seq_num, self.gathering.get(log, 0))
        self.offset = offset
        self.changed.set()

    def take(self) -> tuple[int, Mapping[LogKey, int]]:
        """What was gathered, and the offset to wait for."""
        self.changed.clear()
        taken, self.gathering = self.gathering, {}
        return self.offset, taken


class PeerLink(Link):
    """One connection to one remote."""

    def __init__(self, connection: Connection, settings: DriverSettings, budget: Budget) -> None:
        super().__init__(connection)
        self.budget = budget
        self.catching_up: set[int] = set()
        """Sessions that have begun and are neither live nor over."""
        self.went_well = False
        """Whether a session has come to its end or to live mode."""
        self.wake = asyncio.Event()
        """Set when something may be waiting to be written."""
        self.quiet = asyncio.Event()
        """Set while everything that waited has been written."""
        self.outgoing: SendStream | None = None
        self.work: asyncio.Queue[Work | None] = asyncio.Queue(settings.check_chunks_ahead)
        self.applying = False
        """Whether a part of what was read waits for room, for checks, or for what it follows on."""
        self.deliveries = Deliveries()
        self.entries_in = 0
        self.entries_out = 0

    @property
    def is_behind(self) -> bool:
        """Whether something that the remote has said was read and is not applied yet."""
        return self.applying or not self.work.empty()
