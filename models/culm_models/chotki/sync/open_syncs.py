"""The receiver of diffs: syncs that wait for their V (reference 4.2).

Nothing of a sync takes effect before its V. Until then its fields wait in a spool and its vector here. A sync
is identified by its T alone: the peer's own, or that of a replica behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from culm_models.chotki.errors import SyncsTooMany, SyncTooLarge, SyncUnknown
from culm_models.chotki.ids import Id
from culm_models.chotki.settings import ChotkiSettings


class Spool(Protocol):
    """Storage of the fields of one open sync, in their order: on disk, unless there are few."""

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Append store keys and operands."""
        ...

    def fields(self) -> Iterable[tuple[bytes, bytes]]:
        """Return all fields, from the first."""
        ...

    def drop(self) -> None:
        """Delete all fields: the sync was committed or dropped."""
        ...


class MemorySpool:
    """A `Spool` in memory."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Append store keys and operands."""
        self._fields += fields

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return all fields, from the first."""
        return self._fields

    def drop(self) -> None:
        """Delete all fields."""
        self._fields = []


@dataclass(slots=True)
class OpenSync:
    """A sync between its H and its V. `is_peers`: it is the peer's own, not a forwarded one."""

    t: Id
    vector: bytes
    is_peers: bool
    spool: Spool
    opened_at_ms: int
    heard_at_ms: int
    bytes: int = 0
    fields: int = 0


class OpenSyncs:
    """The open syncs of one connection, by T."""

    __slots__ = ("_open", "_open_spool", "_settings")

    def __init__(self, settings: ChotkiSettings, open_spool: Callable[[], Spool]) -> None:
        self._settings = settings
        self._open_spool = open_spool
        self._open: dict[Id, OpenSync] = {}

    def __iter__(self) -> Iterator[OpenSync]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def open(self, t: Id, vector: bytes, *, is_peers: bool, now_ms: int) -> OpenSync:
        """Begin a sync; an open sync with its T is forgotten. Raises `SyncsTooMany`."""
        self.forget(t)
        if len(self._open) >= self._settings.max_open_syncs:
            raise SyncsTooMany(f"{len(self._open)} syncs are open on this connection")
        sync = self._open[t] = OpenSync(t, vector, is_peers, self._open_spool(), now_ms, now_ms)
        return sync

    def get(self, t: Id) -> OpenSync:
        """Return the sync of a D or V. Raises `SyncUnknown`."""
        sync = self._open.get(t)
        if sync is None:
            raise SyncUnknown(f"no sync {t} is open")
        return sync

    def take_capacity(self, sync: OpenSync, size: int) -> None:
        """Count a D of ``size`` bytes. Raises `SyncTooLarge` if it exceeds the limit."""
        if sync.bytes + size > self._settings.max_sync_bytes:
            raise SyncTooLarge(f"the diffs of {sync.t} exceed {self._settings.max_sync_bytes} bytes")
        sync.bytes += size

    def add(self, sync: OpenSync, fields: list[tuple[bytes, bytes]], now_ms: int) -> None:
        """Keep fields of a D."""
        sync.spool.extend(fields)
        sync.fields += len(fields)
        sync.heard_at_ms = now_ms

    def forget(self, t: Id) -> None:
        """End a sync, if it is open."""
        sync = self._open.pop(t, None)
        if sync is not None:
            sync.spool.drop()

    def forget_all(self) -> None:
        """End all syncs."""
        for t in list(self._open):
            self.forget(t)

    def expired(self, now_ms: int) -> list[OpenSync]:
        """Return the syncs that received nothing for too long, the peer's own first."""
        limit_ms = now_ms - self._settings.sync_expiry_ms
        syncs = [sync for sync in self._open.values() if sync.heard_at_ms <= limit_ms]
        return sorted(syncs, key=lambda sync: not sync.is_peers)

    def next_expiry_ms(self) -> int | None:
        """Return the time at which the next sync expires, or None if no sync is open."""
        if not self._open:
            return None
        return min(sync.heard_at_ms for sync in self._open.values()) + self._settings.sync_expiry_ms
