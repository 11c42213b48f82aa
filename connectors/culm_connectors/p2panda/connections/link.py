"""The driver's state of one connection to one remote: its queues and limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from culm_connectors.edge.serving import ServedLink
from culm_connectors.logs.check_pool import Checked
from culm_connectors.p2panda.connections.budgets import Budget
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.interface import Connection, SendStream
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.wire.messages import EntryMessage, Message
from culm_models.reconciliation.messages import ReconciliationMessage


@dataclass(slots=True)
class Work:
    """A part of what was read: entries with their checks under way, ranges, or one other message."""

    entries: tuple[EntryMessage, ...] = ()
    checking: asyncio.Future[list[Checked[OperationFacts]]] | None = None
    ranges: tuple[ReconciliationMessage, ...] = ()
    other: Message | None = None


class PeerLink(ServedLink):
    """One connection to one remote."""

    def __init__(self, connection: Connection, settings: DriverSettings, budget: Budget) -> None:
        super().__init__(connection)
        self.budget = budget
        self.went_well = False
        """Whether a session has come to its end or to live mode."""
        self.wake = asyncio.Event()
        """Set when something may be waiting to be written."""
        self.quiet = asyncio.Event()
        """Set while everything that waited has been written."""
        self.outgoing: SendStream | None = None
        self.work: asyncio.Queue[Work | None] = asyncio.Queue(settings.check_chunks_ahead)
        self.applying = False
        """Whether data that was read waits for capacity, for checks, or for entries that it follows."""
        self.entries_out = 0

    @property
    def is_behind(self) -> bool:
        """Whether a message of the remote was read and is not applied yet."""
        return self.applying or not self.work.empty()
