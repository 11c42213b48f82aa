"""A store with any number of remotes: data received from one is forwarded to the others (3.7, R59, R66)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from culm_models.bamboo.checks import check_payload, check_signature
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import PayloadSizeError
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection, Changes
from culm_models.bamboo_p2p.forks import fork_with_held
from culm_models.bamboo_p2p.link import VerifySignatures
from culm_models.bamboo_p2p.settings import Answers, BambooSettings
from culm_models.bamboo_p2p.store import BambooStore, HeldEntry
from culm_models.keys import verify_all


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry from another source: its signed bytes, and its payload, or unverified parts by offset."""

    entry_bytes: bytes
    payload: bytes | None = None
    parts: tuple[tuple[int, bytes], ...] = ()


class Peer:
    """One end with many connections over one store. The caller chooses the names of remotes.

    `verify_signatures` receives many signatures at a time if much data arrives, so that a driver can use
    threads.
    """

    def __init__(
        self,
        store: BambooStore,
        settings: BambooSettings,
        *,
        verify_signatures: VerifySignatures = verify_all,
    ) -> None:
        self.store = store
        self.settings = settings
        self._verify_signatures = verify_signatures
        self.connections: dict[str, BambooConnection] = {}

    def connect(
        self, remote: str, *, is_proactive: bool, now_ms: int, answers: Answers | None = None
    ) -> BambooConnection:
        """Create a connection to a remote. An earlier connection with its name is dropped.

        `answers` replaces the policy of the settings.
        """
        settings = self.settings if answers is None else replace(self.settings, answers=answers)
        connection = BambooConnection(
            self.store,
            settings,
            is_proactive=is_proactive,
            now_ms=now_ms,
            verify_signatures=self._verify_signatures,
        )
        self.connections[remote] = connection
        return connection

    def disconnect(self, remote: str) -> None:
        """Remove the connection to a remote, with its state."""
        self.connections.pop(remote, None)

    def settle(self) -> list[tuple[str, Changes]]:
        """Notify all connections of changes that any of them made to the store.

        Returns each remote with its changes.
        """
        changed: list[tuple[str, Changes]] = []
        for remote, connection in tuple(self.connections.items()):
            changes = connection.take_changes()
            if changes:
                self.notify_connections(changes)
                changed.append((remote, changes))
        return changed

    def notify_connections(self, changes: Changes) -> None:
        """Notify all connections of changes of the store."""
        for connection in tuple(self.connections.values()):
            connection.on_store_changed(changes)

    def check(self, new_entry: NewEntry) -> HeldEntry:
        """Verify an entry by itself and with its payload. Returns it. Raises `BambooError`."""
        flavour = self.store.flavour
        entry = decode_entry(new_entry.entry_bytes, flavour)
        check_signature(new_entry.entry_bytes, entry)
        if new_entry.payload is not None:
            check_payload(entry, new_entry.payload, flavour)
        for offset, data in new_entry.parts:
            if offset + len(data) > entry.payload_size:
                raise PayloadSizeError(f"entry {entry.seq_num} states {entry.payload_size} bytes")
        return HeldEntry(entry, new_entry.entry_bytes, flavour.hash(new_entry.entry_bytes))

    def add(self, new_entries: Iterable[NewEntry]) -> list[LogKey]:
        """Add entries, payloads and parts to the store. Returns the logs that are now found to be forked.

        All are checked before any is added. Raises `BambooError`.
        """
        checked = [(self.check(new_entry), new_entry) for new_entry in new_entries]
        entries: list[tuple[LogKey, int]] = []
        discarded: list[tuple[LogKey, int]] = []
        forked: list[LogKey] = []
        for log_entry, new_entry in checked:
            log: LogKey = (log_entry.entry.public_key, log_entry.entry.log_id)
            seq_num = log_entry.entry.seq_num
            proof = fork_with_held(log_entry, self.store)
            if proof is not None:
                if self.store.fork_proof(log) is None:
                    self.store.put_fork_proof(log, proof)
                    forked.append(log)
                continue
            if self.store.entry(log, seq_num) is None:
                self.store.put_entry(log, log_entry)
            if not self.store.has_payload(log, seq_num):
                parts = new_entry.parts if new_entry.payload is None else ((0, new_entry.payload),)
                for offset, data in parts:
                    self.store.put_unverified(log, seq_num, offset, data)
                whole = self.store.unverified(log, seq_num).covers(0, log_entry.entry.payload_size)
                if (
                    new_entry.payload is not None or (new_entry.parts and whole)
                ) and not self.store.verify_payload(log, seq_num):
                    discarded.append((log, seq_num))
            entries.append((log, seq_num))
        self.notify_connections(Changes(entries, discarded, forked))
        return forked
