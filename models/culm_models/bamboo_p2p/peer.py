"""A store with any number of remotes: data received from one is forwarded to the others (3.7, R59, R66)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from culm_models.bamboo.checks import check_payload, check_signature
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import PayloadSizeError
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes, Connection
from culm_models.bamboo_p2p.forks import fork_with_held
from culm_models.bamboo_p2p.link import VerifySignatures
from culm_models.bamboo_p2p.settings import Answers, PeerSettings
from culm_models.bamboo_p2p.store import BambooStore, HeldEntry
from culm_models.keys import verify_all


@dataclass(frozen=True, slots=True)
class GivenEntry:
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
        settings: PeerSettings,
        *,
        verify_signatures: VerifySignatures = verify_all,
    ) -> None:
        self.store = store
        self.settings = settings
        self._verify_signatures = verify_signatures
        self.connections: dict[str, Connection] = {}

    def connect(
        self, remote: str, *, is_proactive: bool, now_ms: int, answers: Answers | None = None
    ) -> Connection:
        """Create a connection to a remote. An earlier connection with its name is dropped.

        `answers` replaces the policy of the settings.
        """
        settings = self.settings if answers is None else replace(self.settings, answers=answers)
        connection = Connection(
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
        brought: list[tuple[str, Changes]] = []
        for remote, connection in tuple(self.connections.items()):
            changes = connection.take_changes()
            if changes:
                self.notify_connections(changes)
                brought.append((remote, changes))
        return brought

    def notify_connections(self, changes: Changes) -> None:
        """Notify all connections of changes of the store."""
        for connection in tuple(self.connections.values()):
            connection.heed(changes)

    def check(self, given: GivenEntry) -> HeldEntry:
        """Verify an entry by itself and with its payload. Returns it. Raises `BambooError`."""
        flavour = self.store.flavour
        entry = decode_entry(given.entry_bytes, flavour)
        check_signature(given.entry_bytes, entry)
        if given.payload is not None:
            check_payload(entry, given.payload, flavour)
        for offset, data in given.parts:
            if offset + len(data) > entry.payload_size:
                raise PayloadSizeError(f"entry {entry.seq_num} states {entry.payload_size} bytes")
        return HeldEntry(entry, given.entry_bytes, flavour.hash(given.entry_bytes))

    def add(self, given: Iterable[GivenEntry]) -> list[LogKey]:
        """Add entries, payloads and parts to the store. Returns the logs that are now found to be forked.

        All are checked before any is added. Raises `BambooError`.
        """
        checked = [(self.check(one), one) for one in given]
        entries: list[tuple[LogKey, int]] = []
        discarded: list[tuple[LogKey, int]] = []
        forked: list[LogKey] = []
        for held, one in checked:
            log: LogKey = (held.entry.public_key, held.entry.log_id)
            seq_num = held.entry.seq_num
            proof = fork_with_held(held, self.store)
            if proof is not None:
                if self.store.fork_proof(log) is None:
                    self.store.put_fork_proof(log, proof)
                    forked.append(log)
                continue
            if self.store.entry(log, seq_num) is None:
                self.store.put_entry(log, held)
            if not self.store.has_payload(log, seq_num):
                parts = one.parts if one.payload is None else ((0, one.payload),)
                for offset, data in parts:
                    self.store.put_unverified(log, seq_num, offset, data)
                whole = self.store.unverified(log, seq_num).covers(0, held.entry.payload_size)
                if (one.payload is not None or (one.parts and whole)) and not self.store.verify_payload(
                    log, seq_num
                ):
                    discarded.append((log, seq_num))
            entries.append((log, seq_num))
        self.notify_connections(Changes(entries, discarded, forked))
        return forked
