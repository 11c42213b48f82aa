"""A `BambooStore` in a folder: entries, payloads in parts, and parts that are not verified yet (the spool).

What was put in is safe from a crash of the process once `commit` has returned. Several processes may have one
folder open: what others committed shows after `refresh`, and `exclusively` keeps them away while something
is read and written that must not change in between.
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
    """The logs of one folder; for one thread. `max_spool_bytes` and its shares bound what is not verified."""

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
        """Let go of the folder; what was not committed is lost."""
        self._checkpoints.close()
        self._database.close()

    # What other processes do to the folder.

    def commit(self) -> None:
        """Make what was put in survive a crash of this process."""
        if self._logs.commit():
            self._checkpoints.count_commit()

    def transaction(self) -> sqlite3.Connection:
        """The database, in a transaction until `commit`: for whoever keeps tables of its own beside these."""
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        return self._database

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep other processes from writing; begins with what they wrote, ends with a commit."""
        self.commit()
        self._begin()
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            self._load()
            raise
        self.commit()

    def refresh(self) -> Changes:
        """Take notice of what other processes have committed: which entries changed."""
        if self._logs.catch_up():
            self._forget()
        return self._logs.take_others_changes()

    def _load(self) -> None:
        self._logs.load()
        self._forget()

    def _forget(self) -> None:
        """What is remembered may not be what is there any more."""
        self._paused = frozenset(name for (name,) in self._database.execute("SELECT name FROM paused"))
        self._cache.clear()
        self._payloads.forget_digests()
        self.shares.load()

    # The spool.

    @property
    def spooled_bytes(self) -> int:
        """Bytes that are there without being verified."""
        return self._logs.spooled_bytes

    @property
    def is_spool_full(self) -> bool:
        """Whether no further unverified bytes are to be taken on."""
        return self._logs.spooled_bytes >= self.max_spool_bytes

    def _drop_oldest_unverified(self) -> None:
        """Make room at the opening, when nobody is in the middle of a payload."""
        for log, seq_num, _ in self.shares.unfinished():
            if self.spooled_bytes * 2 <= self.max_spool_bytes:
                break
            self.discard_unverified(log, seq_num)
        self.commit()

    # `BambooStore`.

    @property
    def flavour(self) -> HashFlavour:
        """What the hashes of all its logs are."""
        return self._flavour

    @property
    def logs(self) -> list[LogKey]:
        """Every log of which anything is kept, in order."""
        return sorted(self._logs.by_name)

    def entries(self, log: LogKey) -> RangeSet:
        """Which entries of a log are held."""
        found = self._logs.by_name.get(log)
        return found.entries if found else RangeSet()

    def payloads(self, log: LogKey) -> RangeSet:
        """Which payloads of a log are held."""
        found = self._logs.by_name.get(log)
        return found.payloads if found else RangeSet()

    def partial_payloads(self, log: LogKey) -> dict[int, RangeSet]:
        """Payloads of which there are unverified parts: which bytes, by sequence number."""
        found = self._logs.by_name.get(log)
        return dict(found.parts) if found else {}

    def entry(self, log: LogKey, seq_num: int) -> HeldEntry | None:
        """The entry, if it is held."""
        found = self._logs.by_name.get(log)
        if found is None or seq_num not in found.entries:
            return None
        held = self._cache.get((log, seq_num))
        if held is None:
            query = "SELECT entry FROM entries WHERE log = ? AND seq_num = ?"
            (data,) = self._database.execute(query, (found.row, number_key(seq_num))).fetchone()
            held = self._decoded(log, seq_num, data)
        return held

    def _decoded(self, log: LogKey, seq_num: int, data: bytes) -> HeldEntry:
        held = self._cache.get((log, seq_num))
        if held is None:
            held = HeldEntry(decode_entry(data, self._flavour), data, self._flavour.hash(data))
            self._remember(log, seq_num, held)
        return held

    def end_of_held_entries(self, log: LogKey, seq_num: int) -> int:
        """The first sequence number from `seq_num` on whose entry is not held."""
        return self.entries(log).end_of_run(seq_num)

    def held_between(self, log: LogKey, first: int, last: int) -> Iterator[int]:
        """The sequence numbers from `first` to `last` whose entries are held, in order."""
        held = self.entries(log)
        number = held.next_member(first)
        while number is not None and number <= last:
            end = held.end_of_run(number)
            yield from range(number, min(end, last + 1))
            number = held.next_member(end)

    def highest_entry(self, log: LogKey) -> int:
        """The highest sequence number that is held; 0 where none is."""
        return self.entries(log).highest or 0

    def end_of_log(self, log: LogKey) -> int | None:
        """Where the author ended the log, if that entry is held."""
        found = self._logs.by_name.get(log)
        return found.end_of_log if found else None

    def fork_proof(self, log: LogKey) -> ForkProof | None:
        """What proves that the log is forked, if it is known to be."""
        found = self._logs.by_name.get(log)
        return found.fork if found else None

    def has_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload is held, whole and verified."""
        return seq_num in self.payloads(log)

    def is_dropped(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload was dropped here, and has not come back."""
        return seq_num in self.dropped(log)

    def end_of_held_payloads(self, log: LogKey, seq_num: int) -> int:
        """The first sequence number from `seq_num` on whose payload is not held."""
        return self.payloads(log).end_of_run(seq_num)

    def unverified(self, log: LogKey, seq_num: int) -> RangeSet:
        """Which bytes of a payload are there without being verified; empty where it is held."""
        found = self._logs.by_name.get(log)
        return (found.parts.get(seq_num) if found else None) or RangeSet()

    def read_payload(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        """Bytes that are held, or that are parts."""
        found = self._logs.by_name.get(log)
        return self._payloads.read(found.row, seq_num, offset, length) if found else b""

    def read_run(
        self, log: LogKey, first: int, last: int, most_bytes: int
    ) -> Sequence[tuple[HeldEntry, bytes]]:
        """Entries from `first` on without a gap, each with its held payload; see `BambooStore`."""
        found = self._logs.by_name.get(log)
        if found is None or first not in found.payloads:
            return []
        last = min(last, found.payloads.end_of_run(first) - 1)
        return [
            (self._decoded(log, seq_num, entry_bytes), payload)
            for seq_num, entry_bytes, payload in read_held(self._database, found.row, first, last, most_bytes)
        ]

    def put_entry(self, log: LogKey, held: HeldEntry) -> None:
        """Keep a verified entry."""
        found = self._log(log)
        entry = held.entry
        self._database.execute(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)",
            (found.row, number_key(entry.seq_num), held.entry_bytes, entry.end_of_log),
        )
        found.add(RunKind.ENTRIES, entry.seq_num, entry.seq_num + 1)
        if entry.end_of_log:
            found.ended_at(entry.seq_num)
        self._remember(log, entry.seq_num, held)

    def put_verified(self, log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        """Keep entries that follow each other, none of which was held; see `BambooStore`."""
        found = self._log(log)
        first = verified[0][0].entry.seq_num
        end = first + len(verified)
        if any(runs.next_member(first) in range(first, end) for runs in (found.payloads, found.dropped)):
            # Another process was faster: what it put in stays.
            for held, payload in verified:
                self.put_entry(log, held)
                if payload is not None and held.entry.seq_num not in found.payloads:
                    self.put_unverified(log, held.entry.seq_num, 0, payload)
                    self.verify_payload(log, held.entry.seq_num)
            return
        insert_verified(self._database, found.row, verified, int(self._clock_s()))
        found.add(RunKind.ENTRIES, first, end)
        found.add(RunKind.PAYLOADS, first, end - (verified[-1][1] is None))
        if verified[-1][0].entry.end_of_log:
            found.ended_at(end - 1)
        found.count_bytes(sum(len(payload) for _, payload in verified if payload is not None))
        for held, _ in verified:
            self._remember(log, held.entry.seq_num, held)

    def put_fork_proof(self, log: LogKey, proof: ForkProof) -> None:
        """Keep a proof; the first one stays."""
        found = self._log(log)
        if found.fork is None:
            found.fork = proof
            query = "UPDATE logs SET fork_one = ?, fork_other = ? WHERE log = ?"
            self._database.execute(query, (*proof, found.row))

    def put_unverified(self, log: LogKey, seq_num: int, offset: int, data: bytes) -> None:
        """Keep bytes of a payload that nobody has verified; what is there at these places is replaced."""
        found = self._log(log)
        if seq_num in found.dropped:
            self._forget_mark(found, seq_num)
        held = found.parts.setdefault(seq_num, RangeSet())
        self._payloads.put(found.row, seq_num, offset, data, held, self._flavour)
        before = held.count
        held.add(offset, offset + len(data))
        self._logs.spooled_bytes += held.count - before
        self.shares.add(found.row, seq_num, held.count - before)

    def verify_payload(self, log: LogKey, seq_num: int) -> bool:
        """Hold the payload if its parts are the whole of it and verify; discard them if they do not."""
        found = self._log(log)
        held = self.entry(log, seq_num)
        assert held is not None, "payloads are verified by their entries"
        if seq_num in found.payloads:
            return True
        size = held.entry.payload_size
        parts = found.parts.pop(seq_num, RangeSet())
        self._logs.spooled_bytes -= parts.count
        self.shares.forget(found.row, seq_num)
        digest = self._payloads.digest(found.row, seq_num, size, self._flavour)
        if (parts.highest or -1) >= size or not parts.covers(0, size) or digest != held.entry.payload_hash:
            self._payloads.discard(found.row, seq_num)
            return False
        if seq_num in found.dropped:
            found.remove(RunKind.DROPPED, seq_num, seq_num + 1)
        self._payloads.hold(found.row, seq_num, size, int(self._clock_s()))
        found.add(RunKind.PAYLOADS, seq_num, seq_num + 1)
        found.count_bytes(size)
        return True

    def discard_unverified(self, log: LogKey, seq_num: int) -> None:
        """Forget the unverified bytes of a payload."""
        found = self._log(log)
        parts = found.parts.pop(seq_num, None)
        if parts is not None:
            self._logs.spooled_bytes -= parts.count
            self.shares.forget(found.row, seq_num)
            self._payloads.discard(found.row, seq_num)

    # What only the owner of a folder does.

    def drop_payload(self, log: LogKey, seq_num: int) -> int:
        """Delete a held payload, keep its entry and that it was dropped: how many bytes that were."""
        held = self.entry(log, seq_num)
        if held is None or not self.has_payload(log, seq_num):
            return 0
        found, size = self._log(log), held.entry.payload_size
        self._payloads.discard(found.row, seq_num)
        self._payloads.mark(found.row, seq_num, is_dropped=True)
        found.remove(RunKind.PAYLOADS, seq_num, seq_num + 1)
        found.add(RunKind.DROPPED, seq_num, seq_num + 1)
        found.count_bytes(-size)
        return size

    def dropped(self, log: LogKey) -> RangeSet:
        """Which payloads of a log were dropped here: nobody asks for them again of itself."""
        found = self._logs.by_name.get(log)
        return found.dropped if found else RangeSet()

    def want_again(self, log: LogKey, first: int, last: int) -> None:
        """Forget that payloads from `first` to `last` were dropped."""
        found = self._log(log)
        for start, end in found.dropped:
            for seq_num in range(max(start, first), min(end, last + 1)):
                self._payloads.discard(found.row, seq_num)
        found.remove(RunKind.DROPPED, first, last + 1)

    def payload_bytes(self, public_key: bytes | None = None) -> int:
        """The size of all held payloads, or of those of one author."""
        return sum(
            log.payload_bytes
            for key, log in self._logs.by_name.items()
            if public_key is None or key[0] == public_key
        )

    def log_bytes(self, log: LogKey) -> int:
        """The size of the held payloads of one log."""
        found = self._logs.by_name.get(log)
        return found.payload_bytes if found else 0

    def oldest_payloads(self, count: int) -> list[tuple[LogKey, int, int, int]]:
        """Of those held for longest: log, sequence number, size in bytes, held since (seconds since 1970)."""
        logs = {log.row: key for key, log in self._logs.by_name.items()}
        return [
            (logs[row], seq_num, size, held_at)
            for row, seq_num, size, held_at in self._payloads.oldest_held(count)
        ]

    @property
    def paused(self) -> frozenset[str]:
        """The logs and peers that are paused, by name."""
        return self._paused

    def pause(self, name: str, *, is_paused: bool) -> None:
        """Pause a log or a peer, or resume it."""
        self._begin()
        put_in, take_out = "INSERT OR IGNORE INTO paused VALUES (?)", "DELETE FROM paused WHERE name = ?"
        self._database.execute(put_in if is_paused else take_out, (name,))
        self._paused = self._paused | {name} if is_paused else self._paused - {name}

    def _forget_mark(self, found: KeptLog, seq_num: int) -> None:
        self._payloads.mark(found.row, seq_num, is_dropped=False)
        found.remove(RunKind.DROPPED, seq_num, seq_num + 1)

    def _begin(self) -> None:
        if self._logs.begin():
            self._forget()

    def _log(self, log: LogKey) -> KeptLog:
        self._begin()
        return self._logs.to_change(log)

    def _remember(self, log: LogKey, seq_num: int, held: HeldEntry) -> None:
        self._cache[log, seq_num] = held
        if len(self._cache) > _CACHED_ENTRIES:
            self._cache.popitem(last=False)
