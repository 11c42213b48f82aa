"""The interface that a session needs of its replica: one in memory, or an edge with a store."""

from __future__ import annotations

from typing import Protocol

from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import LivePacket
from culm_models.chotki.store import StoreSnapshot
from culm_models.chotki.sync.open_syncs import OpenSync, Spool


class Host(Protocol):
    """The replica that a session belongs to."""

    @property
    def src(self) -> int:
        """The source of this replica."""
        ...

    def is_ours(self, src: int) -> bool:
        """Whether a source is the replica's own, or that of another edge of the same deployment."""
        ...

    @property
    def counter(self) -> int:
        """The progress of the last id that the source issued."""
        ...

    def raise_counter(self, pro: int) -> None:
        """Raise the counter to an id of this replica's source that returned."""
        ...

    def snapshot(self) -> StoreSnapshot:
        """Return the store as it is now, with the global vector that a handshake announces."""
        ...

    def open_spool(self) -> Spool:
        """Return a place for the fields of an open sync."""
        ...

    def apply(self, live: LivePacket) -> None:
        """Apply a live packet."""
        ...

    def commit_sync(self, sync: OpenSync, vectors: list[tuple[Id, bytes]]) -> Id | None:
        """Apply a whole sync at once: its fields, these vectors of blocks, its vector.

        If the entry of this replica's source in the sync's vector is beyond the counter, the counter is
        raised to it and the entry is returned.
        """
        ...

    def forward(self, session: object, record: bytes) -> None:
        """Take an applied record of ``session``, a session of this replica; a hub sends it to the others."""
        ...
