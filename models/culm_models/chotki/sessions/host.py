"""What a session needs of the replica that it belongs to: one in memory, or an edge with a store."""

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
        """Its source."""
        ...

    def is_ours(self, src: int) -> bool:
        """Whether a source is its own, or that of another edge of the same deployment."""
        ...

    @property
    def counter(self) -> int:
        """The progress of the last id that its source gave."""
        ...

    def raise_counter(self, pro: int) -> None:
        """An id of its source came back."""
        ...

    def snapshot(self) -> StoreSnapshot:
        """Its store as it is now, with the global vector that a handshake announces."""
        ...

    def open_spool(self) -> Spool:
        """A place for the fields of a sync that is open."""
        ...

    def apply(self, live: LivePacket) -> None:
        """A live packet takes effect."""
        ...

    def commit_sync(self, sync: OpenSync, vectors: list[tuple[Id, bytes]]) -> Id | None:
        """A sync takes effect at once: its fields, these vectors of blocks, its vector.

        Answers with the own entry of the sync's vector if it is beyond the counter, which it raised.
        """
        ...

    def forward(self, session: object, record: bytes) -> None:
        """A record of ``session``, which is one of its own, was taken: a hub gives it to the others."""
        ...
