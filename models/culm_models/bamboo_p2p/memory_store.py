"""A store of logs in memory, for tests, for small devices, and for `culm conform`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.store import ForkProof, HeldEntry, VerifiedEntry


class _UnverifiedBytes:
    """Unverified bytes of a payload, as pieces that are never adjacent.

    Uses memory only for received bytes.
    """

    __slots__ = ("_pieces", "held")

    def __init__(self) -> None:
        self.held = RangeSet()
        self._pieces: dict[int, bytearray] = {}

    def put(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        touched = [
            (start, piece)
            for start, piece in self._pieces.items()
            if start <= end and offset <= start + len(piece)
        ]
        self.held.add(offset, end)
        if len(touched) == 1 and touched[0][0] <= offset:
            start, piece = touched[0]
            piece[offset - start : end - start] = data
            return
        joined = bytearray(data)
        joined_start = offset
        for start, piece in sorted(touched, key=lambda touching: touching[0]):
            del self._pieces[start]
            if start < joined_start:
                joined[:0] = piece[: joined_start - start]
                joined_start = start
            joined += piece[max(0, joined_start + len(joined) - start) :]
        self._pieces[joined_start] = joined

    def read(self, offset: int, length: int) -> bytes:
        for start, piece in self._pieces.items():
            if start <= offset < start + len(piece):
                return bytes(piece[offset - start : offset - start + length])
        return b""


class _Log:
    __slots__ = ("end_of_log", "entries", "fork", "held", "held_payloads", "parts", "payloads")

    def __init__(self) -> None:
        self.entries: dict[int, HeldEntry] = {}
        self.held = RangeSet()
        self.held_payloads = RangeSet()
        self.payloads: dict[int, bytes] = {}
        self.parts: dict[int, _UnverifiedBytes] = {}
        self.end_of_log: int | None = None
        self.fork: ForkProof | None = None


class MemoryBambooStore:
    """A `BambooStore` in memory."""

    def __init__(self, flavour: HashFlavour) -> None:
        self._flavour = flavour
        self._logs: dict[LogKey, _Log] = {}

    @property
    def flavour(self) -> HashFlavour:
        """The hash flavour of all logs."""
        return self._flavour

    @property
    def logs(self) -> list[LogKey]:
        """All logs of which anything is stored, in order."""
        return sorted(self._logs)

    def entries(self, log: LogKey) -> list[int]:
        """Return the sequence numbers of the held entries, in order."""
        return sorted(self._log(log).entries)

    def entry(self, log: LogKey, seq_num: int) -> HeldEntry | None:
        """Return an entry, or None if it is not held."""
        contents = self._logs.get(log)
        return contents.entries.get(seq_num) if contents else None

    def end_of_held_entries(self, log: LogKey, seq_num: int) -> int:
        """Return the first sequence number from `seq_num` on whose entry is not held."""
        contents = self._logs.get(log)
        return contents.held.end_of_run(seq_num) if contents else seq_num

    def held_between(self, log: LogKey, first: int, last: int) -> Iterator[int]:
        """Yield the sequence numbers from `first` to `last` whose entries are held, in order."""
        contents = self._logs.get(log)
        number = contents.held.next_member(first) if contents else None
        while contents and number is not None and number <= last:
            end = contents.held.end_of_run(number)
            yield from range(number, min(end, last + 1))
            number = contents.held.next_member(end)

    def highest_entry(self, log: LogKey) -> int:
        """Return the highest sequence number that is held; 0 if no entry is held."""
        contents = self._logs.get(log)
        return (contents.held.highest or 0) if contents else 0

    def end_of_log(self, log: LogKey) -> int | None:
        """Return the sequence number at which the author ended the log, or None if no such entry is held."""
        contents = self._logs.get(log)
        return contents.end_of_log if contents else None

    def fork_proof(self, log: LogKey) -> ForkProof | None:
        """Return the proof that the log is forked, or None."""
        contents = self._logs.get(log)
        return contents.fork if contents else None

    def has_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload is held completely and verified."""
        contents = self._logs.get(log)
        return contents is not None and seq_num in contents.payloads

    def is_dropped(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload was dropped; always False, as this store keeps everything."""
        return False

    def end_of_held_payloads(self, log: LogKey, seq_num: int) -> int:
        """Return the first sequence number from `seq_num` on whose payload is not held."""
        contents = self._logs.get(log)
        return contents.held_payloads.end_of_run(seq_num) if contents else seq_num

    def unverified(self, log: LogKey, seq_num: int) -> RangeSet:
        """Return the ranges of unverified bytes of a payload; empty if the payload is held."""
        contents = self._logs.get(log)
        parts = contents.parts.get(seq_num) if contents else None
        return parts.held if parts else RangeSet()

    def read_payload(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        """Read bytes of a held payload or of unverified parts."""
        contents = self._log(log)
        payload = contents.payloads.get(seq_num)
        if payload is not None:
            return payload[offset : offset + length]
        return contents.parts[seq_num].read(offset, length)

    def read_run(
        self, log: LogKey, first: int, last: int, max_bytes: int
    ) -> Sequence[tuple[HeldEntry, bytes]]:
        """Return consecutive entries from `first` on, each with its held payload, as in `BambooStore`."""
        contents = self._logs.get(log)
        run: list[tuple[HeldEntry, bytes]] = []
        if contents is None:
            return run
        for seq_num in range(first, last + 1):
            log_entry, payload = contents.entries.get(seq_num), contents.payloads.get(seq_num)
            if log_entry is None or payload is None or len(payload) > max_bytes:
                break
            max_bytes -= len(payload)
            run.append((log_entry, payload))
        return run

    def put_entry(self, log: LogKey, log_entry: HeldEntry) -> None:
        """Store a verified entry."""
        contents = self._log(log)
        seq_num = log_entry.entry.seq_num
        contents.entries[seq_num] = log_entry
        contents.held.add(seq_num, seq_num + 1)
        if log_entry.entry.end_of_log:
            contents.end_of_log = seq_num

    def put_verified(self, log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        """Store consecutive entries, none of which was held, as in `BambooStore`."""
        contents = self._log(log)
        for log_entry, payload in verified:
            seq_num = log_entry.entry.seq_num
            contents.entries[seq_num] = log_entry
            if payload is not None:
                contents.payloads[seq_num] = payload
        first = verified[0][0].entry.seq_num
        end = first + len(verified)
        contents.held.add(first, end)
        contents.held_payloads.add(first, end - (verified[-1][1] is None))
        if verified[-1][0].entry.end_of_log:
            contents.end_of_log = end - 1

    def put_fork_proof(self, log: LogKey, proof: ForkProof) -> None:
        """Store a proof. The first proof is kept."""
        contents = self._log(log)
        contents.fork = contents.fork or proof

    def put_unverified(self, log: LogKey, seq_num: int, offset: int, data: bytes) -> None:
        """Store unverified bytes of a payload, replacing earlier ones at these offsets."""
        self._log(log).parts.setdefault(seq_num, _UnverifiedBytes()).put(offset, data)

    def verify_payload(self, log: LogKey, seq_num: int) -> bool:
        """Verify a payload from its parts.

        Returns whether it is complete and valid. A valid payload is held from then on; else the parts are
        discarded.
        """
        contents = self._log(log)
        log_entry = contents.entries[seq_num]
        size = log_entry.entry.payload_size
        parts = contents.parts.pop(seq_num, _UnverifiedBytes())
        payload = parts.read(0, size) if parts.held.covers(0, size) else b""
        if len(payload) != size or self._flavour.hash(payload) != log_entry.entry.payload_hash:
            return False
        contents.payloads[seq_num] = payload
        contents.held_payloads.add(seq_num, seq_num + 1)
        return True

    def discard_unverified(self, log: LogKey, seq_num: int) -> None:
        """Discard the unverified bytes of a payload."""
        self._log(log).parts.pop(seq_num, None)

    def _log(self, log: LogKey) -> _Log:
        return self._logs.setdefault(log, _Log())
