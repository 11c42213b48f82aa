"""Bare logs for tests: payloads that are no operations, hashes of either flavour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from culm_models.bamboo import Entry, decode_entry, lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YAMF, HashFlavour
from culm_models.keys import KeyPair
from culm_topics.logs.records import EntryRecord, FragmentRecord, LogRecord, fragment_key
from culm_topics.records import log_key
from tests.support.p2panda.logs_job import BROUGHT_BY, Arrival


@dataclass(frozen=True, slots=True)
class BareLogEntry:
    """One entry of a bare log with its payload."""

    flavour: HashFlavour
    entry: Entry
    entry_bytes: bytes
    payload: bytes

    @property
    def seq_num(self) -> int:
        """Its place in its log."""
        return self.entry.seq_num

    @property
    def hash(self) -> bytes:
        """Its identifier."""
        return self.flavour.hash(self.entry_bytes)

    @property
    def key(self) -> bytes:
        """The key of its log."""
        return log_key(self.entry.public_key, self.entry.log_id, self.flavour)

    def arrival(self, offset: int, *, inline: bool = True, schema_id: str = "") -> Arrival:
        """The record of `entries` that says it."""
        payload = self.payload if inline else b""
        value = EntryRecord(self.entry_bytes, payload, schema_id, BROUGHT_BY, 7, b"connector").encode()
        return self.key, value, 0, offset

    def log_record(self, *, inline: bool = True) -> LogRecord:
        """What the job `logs` writes."""
        payload = self.payload if inline else b""
        return LogRecord(self.seq_num, self.entry_bytes, payload, self.hash, "")

    def fragment(self) -> tuple[bytes, bytes]:
        """(key, value) of its record of `fragments`."""
        return fragment_key(self.key, self.seq_num), FragmentRecord(self.entry_bytes, self.hash).encode()


def make_bare_log(
    key_pair: KeyPair,
    log_id: int,
    payloads: Iterable[bytes],
    *,
    flavour: HashFlavour = YAMF,
    after: Sequence[BareLogEntry] = (),
    ends: bool = False,
) -> list[BareLogEntry]:
    """The entries of these payloads; `after` continues a log (or forks one), `ends` ends it with the last."""
    log = list(after)
    wanted = list(payloads)
    for index, payload in enumerate(wanted):
        seq_num = len(log) + 1
        entry_bytes = sign_entry(
            key_pair,
            log_id,
            seq_num,
            payload,
            skiplink=log[lipmaa(seq_num) - 1].hash if needs_skiplink(seq_num) else None,
            backlink=log[-1].hash if log else None,
            end_of_log=ends and index == len(wanted) - 1,
            flavour=flavour,
        )
        log.append(BareLogEntry(flavour, decode_entry(entry_bytes, flavour), entry_bytes, payload))
    return log[len(after) :]


def texts(count: int, what: str = "joint") -> list[bytes]:
    """Payloads that are no operations."""
    return [f"{what} {number}".encode() for number in range(1, count + 1)]
