"""Interface of the store that keeps an end's logs.

Entries are verified: form, signature, and the links whose targets are held. A payload is either held, which
means verified, or present in unverified parts. A forked log keeps the proof of the fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_models.bamboo.entry import Entry
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """A verified entry: decoded, its signed bytes, and its hash in the flavour of the store."""

    entry: Entry
    entry_bytes: bytes
    hash: bytes


VerifiedEntry = tuple[HeldEntry, bytes | None]
"""A verified entry, and its payload if it is present and verified."""

ForkProof = tuple[bytes, bytes]
"""Two signed entries that prove that their log is forked."""


class BambooStore(Protocol):
    """Verified entries and payloads, and unverified parts of payloads, by log and sequence number."""

    @property
    def flavour(self) -> HashFlavour:
        """The hash flavour of all logs."""
        ...

    def entry(self, log: LogKey, seq_num: int) -> HeldEntry | None:
        """Return an entry, or None if it is not held."""
        ...

    def end_of_held_entries(self, log: LogKey, seq_num: int) -> int:
        """Return the first sequence number from `seq_num` on whose entry is not held."""
        ...

    def held_between(self, log: LogKey, first: int, last: int) -> Iterator[int]:
        """Yield the sequence numbers from `first` to `last` whose entries are held, in order."""
        ...

    def highest_entry(self, log: LogKey) -> int:
        """Return the highest sequence number that is held; 0 if no entry is held."""
        ...

    def end_of_log(self, log: LogKey) -> int | None:
        """Return the sequence number at which the author ended the log, or None if no such entry is held."""
        ...

    def fork_proof(self, log: LogKey) -> ForkProof | None:
        """Return the proof that the log is forked, or None."""
        ...

    def has_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload is held completely and verified."""
        ...

    def is_dropped(self, log: LogKey, seq_num: int) -> bool:
        """Whether the owner dropped the payload, so that unsolicited bytes of it are not kept."""
        ...

    def end_of_held_payloads(self, log: LogKey, seq_num: int) -> int:
        """Return the first sequence number from `seq_num` on whose payload is not held."""
        ...

    def unverified(self, log: LogKey, seq_num: int) -> RangeSet:
        """Return the ranges of unverified bytes of a payload; empty if the payload is held."""
        ...

    def read_payload(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        """Read bytes of a held payload or of unverified parts."""
        ...

    def read_run(
        self, log: LogKey, first: int, last: int, max_bytes: int
    ) -> Sequence[tuple[HeldEntry, bytes]]:
        """Return consecutive entries from `first` to at most `last`, each with its held payload.

        Stops before the first entry that is not held with its payload, or whose payload would exceed
        `max_bytes` in total.
        """
        ...

    def put_entry(self, log: LogKey, log_entry: HeldEntry) -> None:
        """Store a verified entry."""
        ...

    def put_verified(self, log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        """Store consecutive entries, none of which was held, with their verified payloads.

        The last entry may end the log, and its payload may be missing.
        """
        ...

    def put_fork_proof(self, log: LogKey, proof: ForkProof) -> None:
        """Store a proof. The first proof is kept."""
        ...

    def put_unverified(self, log: LogKey, seq_num: int, offset: int, data: bytes) -> None:
        """Store unverified bytes of a payload, replacing earlier ones at these offsets."""
        ...

    def verify_payload(self, log: LogKey, seq_num: int) -> bool:
        """Verify a payload from its parts.

        Returns whether it is complete and valid. A valid payload is held from then on; else the parts are
        discarded.
        """
        ...

    def discard_unverified(self, log: LogKey, seq_num: int) -> None:
        """Discard the unverified bytes of a payload."""
        ...
