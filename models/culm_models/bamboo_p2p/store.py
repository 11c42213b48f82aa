"""What an end needs of whoever keeps its logs.

Entries here are verified: form, signature, and the links whose targets are held. A payload is either held,
which means verified, or there are parts of it, which nobody has verified yet. A log in which two entries
contradict each other keeps the proof.
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
"""A verified entry, with its payload where that is here and was verified, too."""

ForkProof = tuple[bytes, bytes]
"""Two signed entries that cannot both be of one log without a fork."""


class BambooStore(Protocol):
    """Verified entries and payloads, and unverified parts of payloads, by log and sequence number."""

    @property
    def flavour(self) -> HashFlavour:
        """What the hashes of all its logs are."""
        ...

    def entry(self, log: LogKey, seq_num: int) -> HeldEntry | None:
        """The entry, if it is held."""
        ...

    def end_of_held_entries(self, log: LogKey, seq_num: int) -> int:
        """The first sequence number from `seq_num` on whose entry is not held."""
        ...

    def held_between(self, log: LogKey, first: int, last: int) -> Iterator[int]:
        """The sequence numbers from `first` to `last` whose entries are held, in order."""
        ...

    def highest_entry(self, log: LogKey) -> int:
        """The highest sequence number that is held; 0 where none is."""
        ...

    def end_of_log(self, log: LogKey) -> int | None:
        """Where the author ended the log, if that entry is held."""
        ...

    def fork_proof(self, log: LogKey) -> ForkProof | None:
        """What proves that the log is forked, if it is known to be."""
        ...

    def has_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether the payload is held, whole and verified."""
        ...

    def is_dropped(self, log: LogKey, seq_num: int) -> bool:
        """Whether the owner dropped the payload: what others bring of it unasked is not kept."""
        ...

    def end_of_held_payloads(self, log: LogKey, seq_num: int) -> int:
        """The first sequence number from `seq_num` on whose payload is not held."""
        ...

    def unverified(self, log: LogKey, seq_num: int) -> RangeSet:
        """Which bytes of a payload are there without being verified; empty where it is held."""
        ...

    def read_payload(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        """Bytes that are held, or that are parts."""
        ...

    def read_run(
        self, log: LogKey, first: int, last: int, most_bytes: int
    ) -> Sequence[tuple[HeldEntry, bytes]]:
        """Entries from `first` to at most `last` without a gap, each with its held payload.

        Ends before one that is not held with its payload, or with which it would be more than `most_bytes`.
        """
        ...

    def put_entry(self, log: LogKey, held: HeldEntry) -> None:
        """Keep a verified entry."""
        ...

    def put_verified(self, log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        """Keep entries that follow each other, none of which was held, with payloads that were verified.

        The last of them may end the log, and its payload may be lacking.
        """
        ...

    def put_fork_proof(self, log: LogKey, proof: ForkProof) -> None:
        """Keep a proof; the first one stays."""
        ...

    def put_unverified(self, log: LogKey, seq_num: int, offset: int, data: bytes) -> None:
        """Keep bytes of a payload that nobody has verified; what is there at these places is replaced."""
        ...

    def verify_payload(self, log: LogKey, seq_num: int) -> bool:
        """Hold the payload if its parts are the whole of it and verify; discard them if they do not."""
        ...

    def discard_unverified(self, log: LogKey, seq_num: int) -> None:
        """Forget the unverified bytes of a payload."""
        ...
