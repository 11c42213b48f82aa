"""Checks whether an entry may join the held logs (specification "replication", validation on receipt).

Entries that are accepted but not durable yet are *staged*. They count as held here, so that a connector can
accept a whole run of a log while its first entries are still being written to disk. The state kept here is
bounded by the number of staged entries.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.entry import lipmaa
from culm_models.bamboo.errors import (
    AfterEndOfLogError,
    BacklinkMismatchError,
    BacklinkUnknownError,
    ForkError,
    LogIdError,
    SkiplinkMismatchError,
    SkiplinkUnknownError,
)
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.errors import OperationTooLargeError, P2pandaError
from culm_models.p2panda.operations.operation import CheckedOperation, check_size
from culm_models.p2panda.store import LogStore


class ForeignSchemaError(P2pandaError, code="p2panda.session.schema"):
    """The entry's schema is not among the session's schemas."""


class LogSchemaError(P2pandaError, code="p2panda.log.schema"):
    """The entry's schema is not that of its log: a log holds one document, a document has one schema."""


class LogBusyError(P2pandaError, code="p2panda.log.busy"):
    """Entries of this log are staged; a locally created entry has to wait until they are stored."""


class NotAdmittedError(P2pandaError, code="p2panda.entry.not_admitted"):
    """The entry is valid, but there is no capacity for it. Subclasses in a store give the reason."""


Admit = Callable[[CheckedOperation, bytes], None]
"""Called before an entry from a remote is staged; raises `NotAdmittedError` to refuse it."""


def admit_everything(checked: CheckedOperation, remote: bytes) -> None:
    """Admit every valid entry."""


AUTHORS_FAULTS: Final = (
    ForkError,
    BacklinkMismatchError,
    SkiplinkMismatchError,
    AfterEndOfLogError,
    LogIdError,
    LogSchemaError,
    OperationTooLargeError,
)
"""Errors that only an author can cause, by signing entries that break a rule or contradict each other.

A remote that sends one of two contradictory entries cannot know the other, which may be held only here.
"""

BLAMELESS: Final = (*AUTHORS_FAULTS, NotAdmittedError)
"""Errors for which the remote that sent the entry is not at fault."""


@dataclass(slots=True)
class _Tail:
    """The end of a log as it will be once all staged entries are stored."""

    height: int
    last_hash: bytes | None
    schema_id: str | None
    document_id: bytes | None
    end_of_log: int | None
    staged: dict[int, bytes] = field(default_factory=dict)
    """Hashes of the staged entries by sequence number."""


class Ingest:
    """Check in front of a store that stages entries which may join its logs."""

    def __init__(self, store: LogStore, admit: Admit = admit_everything) -> None:
        self._store = store
        self._admit = admit
        self._tails: dict[LogKey, _Tail] = {}
        self._documents: dict[bytes, bytes] = {}
        self._log_ids: dict[tuple[bytes, bytes], int] = {}

    @property
    def staged_count(self) -> int:
        """Number of staged entries."""
        return sum(len(tail.staged) for tail in self._tails.values())

    def check_idle(self, key: LogKey) -> None:
        """Raise `LogBusyError` if entries of the log are staged."""
        tail = self._tails.get(key)
        if tail is not None:
            raise LogBusyError(f"{len(tail.staged)} entries of log {key[1]} wait to be stored")

    def height(self, public_key: bytes, log_id: int) -> int:
        """Return the highest sequence number that is held or staged."""
        tail = self._tails.get((public_key, log_id))
        return self._store.height(public_key, log_id) if tail is None else tail.height

    def log_of(self, public_key: bytes, document_id: bytes) -> int | None:
        """Return the held or staged log under which an author writes to a document; None without one."""
        staged = self._log_ids.get((public_key, document_id))
        return self._store.log_of(public_key, document_id) if staged is None else staged

    def document_of(self, operation_id: bytes) -> bytes | None:
        """Return the document of a held or staged operation; None if it is not known."""
        return self._documents.get(operation_id) or self._store.document_of(operation_id)

    def staged_logs(self, public_key: bytes) -> list[int]:
        """Return the ids of an author's logs that have staged entries."""
        return [log_id for author, log_id in self._tails if author == public_key]

    def hash_at(self, public_key: bytes, log_id: int, seq_num: int) -> bytes | None:
        """Return the hash of a held or staged entry; None if there is no such entry."""
        tail = self._tails.get((public_key, log_id))
        if tail is not None:
            staged_hash = tail.staged.get(seq_num)
            if staged_hash is not None:
                return staged_hash
        return self._store.entry_hash(public_key, log_id, seq_num)

    def stage(
        self, checked: CheckedOperation, schema_ids: Set[str] | None = None, remote: bytes | None = None
    ) -> bool:
        """Stage an entry. Returns False if it is held or staged already; raises the error that forbids it.

        `schema_ids` are the session's schemas and `remote` is the origin; both are None outside of sessions.
        """
        if schema_ids is not None and checked.schema_id not in schema_ids:
            raise ForeignSchemaError(f"the session is not about {checked.schema_id[:200]}")
        tail_and_document = self._place(checked)
        if tail_and_document is None:
            return False
        if remote is not None:
            # Last: an entry that is admitted is staged.
            self._admit(checked, remote)
        tail, document_id = tail_and_document
        entry = checked.entry
        seq_num = entry.seq_num
        self._tails[entry.public_key, entry.log_id] = tail
        if seq_num == 1:
            tail.schema_id = checked.schema_id
            tail.document_id = document_id
            if document_id is not None:
                self._log_ids[entry.public_key, document_id] = entry.log_id
        if document_id is not None:
            self._documents[checked.hash] = document_id
        tail.height = seq_num
        tail.last_hash = checked.hash
        tail.staged[seq_num] = checked.hash
        if entry.end_of_log:
            tail.end_of_log = seq_num
        return True

    def check(self, checked: CheckedOperation) -> None:
        """Raise the error that forbids an entry; nothing is staged.

        The entry's hash matters only if the entry is held, so an entry can be checked before it is signed.
        """
        self._place(checked)

    def _place(self, checked: CheckedOperation) -> tuple[_Tail, bytes | None] | None:
        """Return the log's tail and the entry's document; None if the entry is held.

        Raises the error that forbids the entry.
        """
        entry = checked.entry
        key = (entry.public_key, entry.log_id)
        tail = self._tails.get(key) or self._tail(key)
        seq_num = entry.seq_num
        if seq_num <= tail.height:
            held_hash = self.hash_at(*key, seq_num)
            if held_hash == checked.hash:
                return None
            assert held_hash is not None, "a log has no gaps below its height"
            raise ForkError(
                f"entry {seq_num} of log {entry.log_id} is held with another hash, {held_hash.hex()}"
            )
        check_size(checked.payload_bytes)
        if tail.end_of_log is not None:
            raise AfterEndOfLogError(f"entry {seq_num} follows the end of its log, {tail.end_of_log}")
        if seq_num > tail.height + 1:
            raise BacklinkUnknownError(f"entry {seq_num - 1} is not held, the log has {tail.height} entries")
        if entry.backlink != tail.last_hash:
            raise BacklinkMismatchError(f"the backlink of entry {seq_num} names another entry")
        if entry.skiplink is not None:
            self._check_skiplink(key, seq_num, entry.skiplink)
        return tail, self._document(checked, tail)

    def settle(self, entries: Sequence[SoundEntry]) -> None:
        """Remove entries that are stored now from the staged ones."""
        for checked in entries:
            key = checked.log
            tail = self._tails.get(key)
            if tail is None:
                continue
            seq_num = checked.entry.seq_num
            if tail.staged.pop(seq_num, None) is not None:
                self._forget(checked)
            if not tail.staged:
                del self._tails[key]
            elif seq_num > tail.height:
                # The entry reached the store without passing through here.
                self._tails[key] = fresh = self._tail(key)
                fresh.staged = tail.staged

    def discard(self, entries: Sequence[SoundEntry]) -> None:
        """Drop entries that will not be stored, and all entries staged on top of them."""
        for checked in entries:
            tail = self._tails.pop(checked.log, None)
            if tail is None:
                continue
            first = checked.entry.seq_num
            fresh = self._tail(checked.log)
            for seq_num, staged_hash in tail.staged.items():
                if seq_num < first:
                    fresh.staged[seq_num] = staged_hash
                else:
                    self._documents.pop(staged_hash, None)
            if first == 1:
                self._forget(checked)
            if fresh.staged:
                highest = max(fresh.staged)
                if highest > fresh.height:
                    fresh.height, fresh.last_hash = highest, fresh.staged[highest]
                    fresh.schema_id, fresh.document_id = tail.schema_id, tail.document_id
                self._tails[checked.log] = fresh

    def _forget(self, checked: SoundEntry) -> None:
        document_id = self._documents.pop(checked.hash, None)
        if document_id is not None and checked.entry.seq_num == 1:
            self._log_ids.pop((checked.entry.public_key, document_id), None)

    def _tail(self, key: LogKey) -> _Tail:
        height = self._store.height(*key)
        if not height:
            return _Tail(0, None, None, None, None)
        info = self._store.log_info(*key)
        assert info is not None, "a log with entries is known"
        last_hash = self._store.entry_hash(*key, height)
        return _Tail(height, last_hash, info.schema_id, info.document_id, info.end_of_log)

    def _check_skiplink(self, key: LogKey, seq_num: int, skiplink: bytes) -> None:
        target = lipmaa(seq_num)
        linked_hash = self.hash_at(*key, target)
        if linked_hash is None:
            raise SkiplinkUnknownError(f"entry {target} is not held")
        if linked_hash != skiplink:
            raise SkiplinkMismatchError(f"the skiplink of entry {seq_num} does not name the entry {target}")

    def _document(self, checked: CheckedOperation, tail: _Tail) -> bytes | None:
        """Return the entry's document if it is known; raises an error if entry and log do not match."""
        entry, previous = checked.entry, checked.facts.previous
        if entry.seq_num > 1:
            if checked.schema_id != tail.schema_id:
                raise LogSchemaError(
                    f"the log is about {tail.schema_id}, not about {checked.schema_id[:200]}"
                )
            if previous is None:
                raise LogIdError(f"entry {entry.seq_num} of log {entry.log_id} creates a second document")
            if tail.document_id is None:
                return None
        document_id = (
            checked.hash if previous is None else self._document_of_previous(checked, previous, tail)
        )
        if entry.seq_num > 1:
            if document_id is not None and document_id != tail.document_id:
                raise LogIdError(f"entry {entry.seq_num} writes to another document than its log")
            return tail.document_id
        if document_id is not None:
            log_id = self.log_of(entry.public_key, document_id)
            if log_id is not None and log_id != entry.log_id:
                raise LogIdError(f"the author writes to this document in log {log_id}, not in {entry.log_id}")
        return document_id

    def _document_of_previous(
        self, checked: CheckedOperation, previous: tuple[bytes, ...], tail: _Tail
    ) -> bytes | None:
        common_id: bytes | None = None
        for operation_id in previous:
            if operation_id == tail.last_hash:
                document_id = tail.document_id
            else:
                document_id = self.document_of(operation_id)
            if document_id is None:
                continue
            if common_id is not None and document_id != common_id:
                raise LogIdError(f"entry {checked.entry.seq_num} follows operations of two documents")
            common_id = document_id
        return common_id
