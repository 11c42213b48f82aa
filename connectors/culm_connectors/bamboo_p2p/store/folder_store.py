"""A `BambooStore` in a folder: entries, payloads in parts, and parts that are not verified yet (the spool).

What was put in is safe from a crash of the process once `commit` has returned. Several processes may have one
folder open: what others committed shows after `refresh`, and `exclusively` keeps them away while something
is read and written that must not change in between.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.store.kept_log import KeptLog, read_kept_log
from culm_connectors.bamboo_p2p.store.payload_chunks import PayloadParts
from culm_connectors.bamboo_p2p.store.tables import number_key, open_database
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.store import ForkProof, HeldEntry

_CACHED_ENTRIES: Final = 4_096
DEFAULT_SPOOL_BYTES: Final = 4 * 1024**3


class FolderStore:
    """The logs of one folder; for one thread. `spool_bytes` bounds what is not verified."""

    def __init__(
        self,
        folder: Path,
        flavour: HashFlavour | None = None,
        *,
        spool_bytes: int = DEFAULT_SPOOL_BYTES,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.spool_bytes = spool_bytes
        self._clock_s = clock_s
        self._database, self._flavour = open_database(folder, flavour)
        self._payloads = PayloadParts(self._database)
        self._logs: dict[LogKey, KeptLog] = {}
        self._cache: OrderedDict[tuple[LogKey, int], HeldEntry] = OrderedDict()
        self._version = self._data_version()
        self._paused: frozenset[str] = frozenset()
        self._load()
        self._drop_oldest_unverified()

    def close(self) -> None:
        """Let go of the folder; what was not committed is lost."""
        self._database.close()

    # What other processes do to the folder.

    def commit(self) -> None:
        """Make what was put in survive a crash of this process."""
        if self._database.in_transaction:
            self._database.execute("COMMIT")

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep other processes from writing; begins with what they wrote, ends with a commit."""
        self.commit()
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self.refresh()
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            self._load()
            raise
        self.commit()

    def refresh(self) -> Changes:
        """Take notice of what other processes have committed: which entries changed."""
        version = self._data_version()
        if version == self._version:
            return Changes()
        self._version = version
        former = self._logs
        self._load()
        changed: list[tuple[LogKey, int]] = []
        forked: list[LogKey] = []
        for key, log in self._logs.items():
            before = former.get(key) or KeptLog(log.row)
            found: set[int] = set()
            for now, then in ((log.entries, before.entries), (log.payloads, before.payloads)):
                for start, end in now:
                    found.update(number for number in range(start, end) if number not in then)
            changed += [(key, number) for number in sorted(found)]
            if log.fork is not None and before.fork is None:
                forked.append(key)
        return Changes(changed, forked=forked)

    def _data_version(self) -> int:
        version: int = self._database.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _load(self) -> None:
        query = "SELECT log, public_key, log_id FROM logs"
        self._logs = {
            (public_key, int.from_bytes(log_id, "big")): read_kept_log(self._database, row)
            for row, public_key, log_id in self._database.execute(query).fetchall()
        }
        rows = self._database.execute("SELECT name FROM paused").fetchall()
        self._paused = frozenset(name for (name,) in rows)
        self._cache.clear()
        self._payloads.forget_digests()

    # The spool.

    @property
    def spooled_bytes(self) -> int:
        """Bytes that are there without being verified."""
        return sum(
            end - start for log in self._logs.values() for parts in log.parts.values() for start, end in parts
        )

    @property
    def is_spool_full(self) -> bool:
        """Whether no further unverified bytes are to be taken on."""
        return self.spooled_bytes >= self.spool_bytes

    def _drop_oldest_unverified(self) -> None:
        """Make room at the opening, when nobody is in the middle of a payload."""
        oldest = sorted(
            (self._payloads.row(log.row, seq_num) or 0, key, seq_num)
            for key, log in self._logs.items()
            for seq_num in log.parts
        )
        for _, key, seq_num in oldest:
            if self.spooled_bytes * 2 <= self.spool_bytes:
                break
            self.discard_unverified(key, seq_num)
        self.commit()

    # `BambooStore`.

    @property
    def flavour(self) -> HashFlavour:
        """What the hashes of all its logs are."""
        return self._flavour

    @property
    def logs(self) -> list[LogKey]:
        """Every log of which anything is kept, in order."""
        return sorted(self._logs)

    def entries(self, log: LogKey) -> RangeSet:
        """Which entries of a log are held."""
        found = self._logs.get(log)
        return found.entries if found else RangeSet()

    def payloads(self, log: LogKey) -> RangeSet:
        """Which payloads of a log are held."""
        found = self._logs.get(log)
        return found.payloads if found else RangeSet()

    def partial_payloads(self, log: LogKey) -> dict[int, RangeSet]:
        """Payloads of which there are unverified parts: which bytes, by sequence number."""
        found = self._logs.get(log)
        return dict(found.parts) if found else {}

    def entry(self, log: LogKey, seq_num: int) -> HeldEntry | None:
        """The entry, if it is held."""
        found = self._logs.get(log)
        if found is None or seq_num not in found.entries:
            return None
        held = self._cache.get((log, seq_num))
        if held is None:
            query = "SELECT entry FROM entries WHERE log = ? AND seq_num = ?"
            (data,) = self._database.execute(query, (found.row, number_key(seq_num))).fetchone()
            held = HeldEntry(decode_entry(data, self._flavour), data, self._flavour.hash(data))
            self._remember(log, seq_num, held)
        return held

    def end_of_held_entries(self, log: LogKey, seq_num: int) -> int:
        """The first sequence number from `seq_num` on whose entry is not held."""
        return self.entries(log).end_of_run(seq_num)

    def held_between(self, log: LogKey, first: int, last: int) -> Iterator[int]:
        """The sequence numbers from `first` to `last` whose entries are held, in order."""
        for start, end in self.entries(log):
            yield from range(max(start, first), min(end, last + 1))

    def highest_entry(self, log: LogKey) -> int:
        """The highest sequence number that is held; 0 where none is."""
        return self.entries(log).highest or 0

    def end_of_log(self, log: LogKey) -> int | None:
        """Where the author ended the log, if that entry is held."""
        found = self._logs.get(log)
        return found.end_of_log if found else None

    def fork_proof(self, log: LogKey) -> ForkProof | None:
        """What proves that the log is forked, if it is known to be."""
        found = self._logs.get(log)
        return found.fork if found else None

    def has_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload is held, whole and verified."""
        return seq_num in self.payloads(log)

    def unverified(self, log: LogKey, seq_num: int) -> RangeSet:
        """Which bytes of a payload are there without being verified; empty where it is held."""
        found = self._logs.get(log)
        return (found.parts.get(seq_num) if found else None) or RangeSet()

    def read_payload(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        """Bytes that are held, or that are parts."""
        found = self._logs.get(log)
        return self._payloads.read(found.row, seq_num, offset, length) if found else b""

    def put_entry(self, log: LogKey, held: HeldEntry) -> None:
        """Keep a verified entry."""
        found = self._log(log)
        entry = held.entry
        self._database.execute(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)",
            (found.row, number_key(entry.seq_num), held.entry_bytes, entry.end_of_log),
        )
        found.entries.add(entry.seq_num, entry.seq_num + 1)
        if entry.end_of_log:
            found.end_of_log = entry.seq_num
        self._remember(log, entry.seq_num, held)

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
        held.add(offset, offset + len(data))

    def verify_payload(self, log: LogKey, seq_num: int) -> bool:
        """Hold the payload if its parts are the whole of it and verify; discard them if they do not."""
        found = self._log(log)
        held = self.entry(log, seq_num)
        assert held is not None, "payloads are verified by their entries"
        size = held.entry.payload_size
        parts = found.parts.pop(seq_num, RangeSet())
        digest = self._payloads.digest(found.row, seq_num, size, self._flavour)
        if (parts.highest or -1) >= size or not parts.covers(0, size) or digest != held.entry.payload_hash:
            self._payloads.discard(found.row, seq_num)
            return False
        if seq_num in found.dropped:
            found.dropped.remove(seq_num, seq_num + 1)
        self._payloads.hold(found.row, seq_num, size, int(self._clock_s()))
        found.payloads.add(seq_num, seq_num + 1)
        found.payload_bytes += size
        return True

    def discard_unverified(self, log: LogKey, seq_num: int) -> None:
        """Forget the unverified bytes of a payload."""
        found = self._log(log)
        if found.parts.pop(seq_num, None) is not None:
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
        found.payloads.remove(seq_num, seq_num + 1)
        found.dropped.add(seq_num, seq_num + 1)
        found.payload_bytes -= size
        return size

    def dropped(self, log: LogKey) -> RangeSet:
        """Which payloads of a log were dropped here: nobody asks for them again of itself."""
        found = self._logs.get(log)
        return found.dropped if found else RangeSet()

    def want_again(self, log: LogKey, first: int, last: int) -> None:
        """Forget that payloads from `first` to `last` were dropped."""
        found = self._log(log)
        for start, end in found.dropped:
            for seq_num in range(max(start, first), min(end, last + 1)):
                self._payloads.discard(found.row, seq_num)
        found.dropped.remove(first, last + 1)

    def payload_bytes(self, public_key: bytes | None = None) -> int:
        """The size of all held payloads, or of those of one author."""
        return sum(
            log.payload_bytes for key, log in self._logs.items() if public_key is None or key[0] == public_key
        )

    def log_bytes(self, log: LogKey) -> int:
        """The size of the held payloads of one log."""
        found = self._logs.get(log)
        return found.payload_bytes if found else 0

    def oldest_payloads(self, count: int) -> list[tuple[LogKey, int, int, int]]:
        """Of those held for longest: log, sequence number, size in bytes, held since (seconds since 1970)."""
        logs = {log.row: key for key, log in self._logs.items()}
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
        statement = (
            "INSERT OR IGNORE INTO paused VALUES (?)" if is_paused else "DELETE FROM paused WHERE name = ?"
        )
        self._database.execute(statement, (name,))
        self._paused = self._paused | {name} if is_paused else self._paused - {name}

    def _forget_mark(self, found: KeptLog, seq_num: int) -> None:
        self._payloads.mark(found.row, seq_num, is_dropped=False)
        found.dropped.remove(seq_num, seq_num + 1)

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")

    def _log(self, log: LogKey) -> KeptLog:
        self._begin()
        found = self._logs.get(log)
        if found is None:
            public_key, log_id = log
            self._database.execute(
                "INSERT OR IGNORE INTO logs (public_key, log_id) VALUES (?, ?)",
                (public_key, number_key(log_id)),
            )
            query = "SELECT log FROM logs WHERE public_key = ? AND log_id = ?"
            (row,) = self._database.execute(query, (public_key, number_key(log_id))).fetchone()
            found = self._logs[log] = read_kept_log(self._database, row)
        return found

    def _remember(self, log: LogKey, seq_num: int, held: HeldEntry) -> None:
        self._cache[log, seq_num] = held
        if len(self._cache) > _CACHED_ENTRIES:
            self._cache.popitem(last=False)
