"""A `BambooStore` in a folder: entries, payloads in parts, and parts that are not verified yet (the spool).

Changes survive a crash of the process once `commit` has returned. Several processes may have a folder open:
`refresh` reads what the others have committed, and `exclusively` locks them out during a read and write that
belong together.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.store.kept_logs import KeptLog, KeptLogs
from culm_connectors.bamboo_p2p.store.payloads import PayloadParts, insert_verified, read_held
from culm_connectors.bamboo_p2p.store.runs import RunKind
from culm_connectors.bamboo_p2p.store.spool_shares import SpoolShares
from culm_connectors.bamboo_p2p.store.tables import DATABASE_FILE, Checkpoints, number_key, open_database
from culm_connectors.clock import steady_s
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.store import ForkProof, HeldEntry, VerifiedEntry

_CACHED_ENTRIES: Final = 4_096
DEFAULT_SPOOL_BYTES: Final = 16 * 1024**3


class FolderStore:
    """The logs of one folder, for one thread. `max_spool_bytes` and its shares limit unverified bytes."""

    def __init__(
        self,
        folder: Path,
        flavour: HashFlavour | None = None,
        *,
        max_spool_bytes: int = DEFAULT_SPOOL_BYTES,
        max_spool_bytes_per_peer: int | None = None,
        max_spool_bytes_per_address: int | None = None,
        clock_s: Callable[[], float] = steady_s,
    ) -> None:
        self.folder, self.max_spool_bytes, self._clock_s = folder, max_spool_bytes, clock_s
        with open_database(folder, flavour) as (self._database, self._flavour):
            self._checkpoints = Checkpoints(self._database, folder / DATABASE_FILE)
            self._payloads = PayloadParts(self._database)
            self._logs = KeptLogs(self._database)
            limits = max_spool_bytes, max_spool_bytes_per_peer, max_spool_bytes_per_address
            self.shares = SpoolShares(self._database, *limits, clock_s)
            self._cache: OrderedDict[tuple[LogKey, int], HeldEntry] = OrderedDict()
            self._paused: frozenset[str] = frozenset()
            self._forget()
            self._drop_oldest_unverified()

    def close(self) -> None:
        """Close the folder. Uncommitted changes are lost."""
        self._checkpoints.close()
        self._database.close()

    # Transactions and other processes.

    def commit(self) -> None:
        """Commit all changes, so that they survive a crash of this process."""
        if self._logs.commit():
            self._checkpoints.count_commit()

    def transaction(self) -> sqlite3.Connection:
        """Return the database, in a transaction until `commit`, for further tables beside the logs."""
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        return self._database

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Lock out other writers in the context. It begins with their changes and ends with a commit."""
        self.commit()
        self._begin()
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            self._logs.load()
            self._forget()
            raise
        self.commit()

    def refresh(self) -> Changes:
        """Read what other processes have committed. Returns the changed entries and forked logs."""
        if self._logs.catch_up():
            self._forget()
        return self._logs.take_others_changes()

    def _forget(self) -> None:
        """Discard everything cached in memory, which may be outdated."""
        self._paused = frozenset(name for (name,) in self._database.execute("SELECT name FROM paused"))
        self._cache.clear()
        self._payloads.forget_digests()
        self.shares.load()

    # The spool.

    @property
    def spooled_bytes(self) -> int:
        """Total size of unverified parts, in bytes."""
        return self._logs.spooled_bytes

    @property
    def is_spool_full(self) -> bool:
        """Whether the spool has no capacity for further bytes."""
        return self._logs.spooled_bytes >= self.max_spool_bytes

    def _drop_oldest_unverified(self) -> None:
        """Free half of the spool at opening, when no payload is being received."""
        for log, seq_num, _ in self.shares.unfinished():
            if self.spooled_bytes * 2 <= self.max_spool_bytes:
                break
            self.discard_unverified(log, seq_num)
        self.commit()

    # `BambooStore`.

    @property
    def flavour(self) -> HashFlavour:
        """Flavour of hashes of all its logs."""
        return self._flavour

    @property
    def logs(self) -> list[LogKey]:
        """All logs with stored data, sorted."""
        return sorted(self._logs.by_name)

    def entries(self, log: LogKey) -> RangeSet:
        """Return the held entries of a log."""
        return self._logs.by_name[log].entries

    def payloads(self, log: LogKey) -> RangeSet:
        """Return the held payloads of a log."""
        return self._logs.by_name[log].payloads

    def partial_payloads(self, log: LogKey) -> dict[int, RangeSet]:
        """Return the byte ranges of unverified parts, by sequence number."""
        return dict(self._logs.by_name[log].parts)

    def entry(self, log: LogKey, seq_num: int) -> HeldEntry | None:
        """Return the entry, or None if it is not held."""
        kept = self._logs.by_name[log]
        if seq_num not in kept.entries:
            return None
        stored = self._cache.get((log, seq_num))
        if stored is None:
            query = "SELECT entry FROM entries WHERE log = ? AND seq_num = ?"
            (data,) = self._database.execute(query, (kept.row, number_key(seq_num))).fetchone()
            stored = self._decoded(log, seq_num, data)
        return stored

    def _decoded(self, log: LogKey, seq_num: int, data: bytes) -> HeldEntry:
        decoded = self._cache.get((log, seq_num))
        if decoded is None:
            decoded = HeldEntry(decode_entry(data, self._flavour), data, self._flavour.hash(data))
            self._remember(log, seq_num, decoded)
        return decoded

    def end_of_held_entries(self, log: LogKey, seq_num: int) -> int:
        """Return the first sequence number from `seq_num` on whose entry is not held."""
        return self.entries(log).end_of_run(seq_num)

    def held_between(self, log: LogKey, first: int, last: int) -> Iterator[int]:
        """Yield the sequence numbers from `first` to `last` whose entries are held, in order."""
        entries = self.entries(log)
        number = entries.next_member(first)
        while number is not None and number <= last:
            end = entries.end_of_run(number)
            yield from range(number, min(end, last + 1))
            number = entries.next_member(end)

    def highest_entry(self, log: LogKey) -> int:
        """Return the highest held sequence number; 0 if no entry is held."""
        return self.entries(log).highest or 0

    def end_of_log(self, log: LogKey) -> int | None:
        """Return the sequence number of the entry that ends the log, or None if no such entry is held."""
        return self._logs.by_name[log].end_of_log

    def fork_proof(self, log: LogKey) -> ForkProof | None:
        """Return the proof that the log is forked, or None."""
        return self._logs.by_name[log].fork

    def has_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload is held, whole and verified."""
        return seq_num in self.payloads(log)

    def is_dropped(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload was dropped here and has not arrived again."""
        return seq_num in self.dropped(log)

    def end_of_held_payloads(self, log: LogKey, seq_num: int) -> int:
        """Return the first sequence number from `seq_num` on whose payload is not held."""
        return self.payloads(log).end_of_run(seq_num)

    def unverified(self, log: LogKey, seq_num: int) -> RangeSet:
        """Return the unverified byte ranges of a payload; empty if the payload is held."""
        return self._logs.by_name[log].parts.get(seq_num) or RangeSet()

    def read_payload(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        """Return bytes of a held or partial payload, as many as there are without a gap."""
        return self._payloads.read(self._logs.by_name[log].row, seq_num, offset, length)

    def read_run(
        self, log: LogKey, first: int, last: int, most_bytes: int
    ) -> Sequence[tuple[HeldEntry, bytes]]:
        """Return entries from `first` on without a gap, each with its held payload, as in `BambooStore`."""
        kept = self._logs.by_name[log]
        if first not in kept.payloads:
            return []
        last = min(last, kept.payloads.end_of_run(first) - 1)
        return [
            (self._decoded(log, seq_num, entry_bytes), payload)
            for seq_num, entry_bytes, payload in read_held(self._database, kept.row, first, last, most_bytes)
        ]

    def put_entry(self, log: LogKey, stored: HeldEntry) -> None:
        """Store a verified entry."""
        kept = self._log(log)
        entry = stored.entry
        self._database.execute(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)",
            (kept.row, number_key(entry.seq_num), stored.entry_bytes, entry.end_of_log),
        )
        kept.add(RunKind.ENTRIES, entry.seq_num, entry.seq_num + 1)
        if entry.end_of_log:
            kept.ended_at(entry.seq_num)
        self._remember(log, entry.seq_num, stored)

    def put_verified(self, log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        """Store consecutive entries that were not held before, as in `BambooStore`."""
        kept = self._log(log)
        first = verified[0][0].entry.seq_num
        end = first + len(verified)
        if any(runs.next_member(first) in range(first, end) for runs in (kept.payloads, kept.dropped)):
            # Another process was faster: its payloads stay.
            for stored, payload in verified:
                self.put_entry(log, stored)
                if payload is not None and stored.entry.seq_num not in kept.payloads:
                    self.put_unverified(log, stored.entry.seq_num, 0, payload)
                    self.verify_payload(log, stored.entry.seq_num)
            return
        insert_verified(self._database, kept.row, verified, int(self._clock_s()))
        kept.add(RunKind.ENTRIES, first, end)
        kept.add(RunKind.PAYLOADS, first, end - (verified[-1][1] is None))
        if verified[-1][0].entry.end_of_log:
            kept.ended_at(end - 1)
        kept.count_bytes(sum(len(payload) for _, payload in verified if payload is not None))
        for stored, _ in verified:
            self._remember(log, stored.entry.seq_num, stored)

    def put_fork_proof(self, log: LogKey, proof: ForkProof) -> None:
        """Store a fork proof, unless the log has one."""
        kept = self._log(log)
        if kept.fork is None:
            kept.fork = proof
            query = "UPDATE logs SET fork_one = ?, fork_other = ? WHERE log = ?"
            self._database.execute(query, (*proof, kept.row))

    def put_unverified(self, log: LogKey, seq_num: int, offset: int, data: bytes) -> None:
        """Store unverified bytes of a payload. Existing bytes at these offsets are replaced."""
        kept = self._log(log)
        if seq_num in kept.dropped:
            self._payloads.mark(kept.row, seq_num, is_dropped=False)
            kept.remove(RunKind.DROPPED, seq_num, seq_num + 1)
        parts = kept.parts.setdefault(seq_num, RangeSet())
        self._payloads.put(kept.row, seq_num, offset, data, parts, self._flavour)
        before = parts.count
        parts.add(offset, offset + len(data))
        self._logs.spooled_bytes += parts.count - before
        self.shares.add(kept.row, seq_num, parts.count - before)

    def verify_payload(self, log: LogKey, seq_num: int) -> bool:
        """Hold the payload if its parts are complete and match its hash, else discard them.

        Returns whether the payload is held.
        """
        kept = self._log(log)
        stored = self.entry(log, seq_num)
        assert stored is not None, "payloads are verified by their entries"
        if seq_num in kept.payloads:
            return True
        size = stored.entry.payload_size
        parts = self._take_parts(kept, seq_num)
        digest = self._payloads.digest(kept.row, seq_num, size, self._flavour)
        if (parts.highest or -1) >= size or not parts.covers(0, size) or digest != stored.entry.payload_hash:
            self._payloads.discard(kept.row, seq_num)
            return False
        if seq_num in kept.dropped:
            kept.remove(RunKind.DROPPED, seq_num, seq_num + 1)
        self._payloads.hold(kept.row, seq_num, size, int(self._clock_s()))
        kept.add(RunKind.PAYLOADS, seq_num, seq_num + 1)
        kept.count_bytes(size)
        return True

    def discard_unverified(self, log: LogKey, seq_num: int) -> None:
        """Discard the unverified bytes of a payload."""
        kept = self._log(log)
        if seq_num in kept.parts:
            self._take_parts(kept, seq_num)
            self._payloads.discard(kept.row, seq_num)

    def _take_parts(self, kept: KeptLog, seq_num: int) -> RangeSet:
        """Remove and return the ranges of an unverified payload, which then no longer counts as spooled."""
        parts = kept.parts.pop(seq_num, RangeSet())
        self._logs.spooled_bytes -= parts.count
        self.shares.forget(kept.row, seq_num)
        return parts

    # Operations of the owner of a folder.

    def drop_payload(self, log: LogKey, seq_num: int) -> int:
        """Delete a held payload and mark it as dropped; its entry stays. Returns its size in bytes."""
        stored = self.entry(log, seq_num)
        if stored is None or not self.has_payload(log, seq_num):
            return 0
        kept, size = self._log(log), stored.entry.payload_size
        self._payloads.discard(kept.row, seq_num)
        self._payloads.mark(kept.row, seq_num, is_dropped=True)
        kept.remove(RunKind.PAYLOADS, seq_num, seq_num + 1)
        kept.add(RunKind.DROPPED, seq_num, seq_num + 1)
        kept.count_bytes(-size)
        return size

    def dropped(self, log: LogKey) -> RangeSet:
        """Return the payloads of a log that were dropped here. They are not requested again automatically."""
        return self._logs.by_name[log].dropped

    def want_again(self, log: LogKey, first: int, last: int) -> None:
        """Remove the marks of dropped payloads from `first` to `last`."""
        kept = self._log(log)
        for start, end in kept.dropped:
            for seq_num in range(max(start, first), min(end, last + 1)):
                self._payloads.discard(kept.row, seq_num)
        kept.remove(RunKind.DROPPED, first, last + 1)

    def payload_bytes(self, public_key: bytes | None = None) -> int:
        """Return the total size of all held payloads, or of one author's, in bytes."""
        return sum(
            log.payload_bytes
            for key, log in self._logs.by_name.items()
            if public_key is None or key[0] == public_key
        )

    def log_bytes(self, log: LogKey) -> int:
        """Return the total size of the held payloads of one log, in bytes."""
        return self._logs.by_name[log].payload_bytes

    def oldest_payloads(self, count: int) -> list[tuple[LogKey, int, int, int]]:
        """Return the `count` payloads that have been held longest.

        Each is (log, sequence number, size in bytes, held since in seconds since 1970).
        """
        logs = {log.row: key for key, log in self._logs.by_name.items()}
        return [
            (logs[row], seq_num, size, held_at)
            for row, seq_num, size, held_at in self._payloads.oldest_held(count)
        ]

    @property
    def paused(self) -> frozenset[str]:
        """Names of the paused logs and peers."""
        return self._paused

    def pause(self, name: str, *, is_paused: bool) -> None:
        """Pause a log or a peer, or resume it."""
        self._begin()
        put_in, take_out = "INSERT OR IGNORE INTO paused VALUES (?)", "DELETE FROM paused WHERE name = ?"
        self._database.execute(put_in if is_paused else take_out, (name,))
        self._paused = self._paused | {name} if is_paused else self._paused - {name}

    def _begin(self) -> None:
        if self._logs.begin():
            self._forget()

    def _log(self, log: LogKey) -> KeptLog:
        self._begin()
        return self._logs.to_change(log)

    def _remember(self, log: LogKey, seq_num: int, stored: HeldEntry) -> None:
        self._cache[log, seq_num] = stored
        if len(self._cache) > _CACHED_ENTRIES:
            self._cache.popitem(last=False)
