"""Whether an entry may join the logs that are held (specification "replication", validation on receipt).

Entries that were taken but are not durable yet are *staged*: they count as held here, so that a connector
can take a whole run of a log while the first of it is still on its way to the disk. The state kept here is
bounded by what is staged.
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
    """The entry's schema is not among those that the session is about."""


class LogSchemaError(P2pandaError, code="p2panda.log.schema"):
    """The entry's schema is not that of its log: a log holds one document, a document has one schema."""


class LogBusyError(P2pandaError, code="p2panda.log.busy"):
    """Entries of this log are staged: one of our own must wait until they are stored."""


class NotAdmittedError(P2pandaError, code="p2panda.entry.not_admitted"):
    """The entry is sound, and there is no room for it here; a store's own errors of this kind say why."""


Admit = Callable[[CheckedOperation, bytes], None]
"""Asked before an entry that a remote brings is staged; raises `NotAdmittedError` to refuse it."""


def admit_everything(checked: CheckedOperation, remote: bytes) -> None:
    """There is room for whatever is sound."""


AUTHORS_FAULTS: Final = (
    ForkError,
    BacklinkMismatchError,
    SkiplinkMismatchError,
    AfterEndOfLogError,
    LogIdError,
    LogSchemaError,
    OperationTooLargeError,
)
"""What an author alone can cause: its signature is on entries that break a rule, or do not go together.

Whoever brings one of two cannot know of the other, which may be held nowhere but here.
"""

BLAMELESS: Final = (*AUTHORS_FAULTS, NotAdmittedError)
"""What is refused without a fault of the remote that brought it."""


@dataclass(slots=True)
class _Tail:
    """The end of a log as it will be when all that is staged is stored."""

    height: int
    last_hash: bytes | None
    schema_id: str | None
    document_id: bytes | None
    end_of_log: int | None
    staged: dict[int, bytes] = field(default_factory=dict)
    """Hashes of the staged entries by sequence number."""


class Ingest:
    """The gate in front of a store."""

    def __init__(self, store: LogStore, admit: Admit = admit_everything) -> None:
        self._store = store
        self._admit = admit
        self._tails: dict[LogKey, _Tail] = {}
        self._documents: dict[bytes, bytes] = {}
        self._log_ids: dict[tuple[bytes, bytes], int] = {}

    @property
    def staged_count(self) -> int:
        """How many entries are staged."""
        return sum(len(tail.staged) for tail in self._tails.values())

    def check_idle(self, key: LogKey) -> None:
        """Raise `LogBusyError` where entries of the log are staged."""
        tail = self._tails.get(key)
        if tail is not None:
            raise LogBusyError(f"{len(tail.staged)} entries of log {key[1]} wait to be stored")

    def height(self, public_key: bytes, log_id: int) -> int:
        """The highest sequence number that is held or staged."""
        tail = self._tails.get((public_key, log_id))
        return self._store.height(public_key, log_id) if tail is None else tail.height

    def log_of(self, public_key: bytes, document_id: bytes) -> int | None:
        """The log under which an author writes to a document, None if none is held or staged."""
        staged = self._log_ids.get((public_key, document_id))
        return self._store.log_of(public_key, document_id) if staged is None else staged

    def document_of(self, operation_id: bytes) -> bytes | None:
        """The document of a held or staged operation, as far as it is known."""
        return self._documents.get(operation_id) or self._store.document_of(operation_id)

    def staged_logs(self, public_key: bytes) -> list[int]:
        """The logs of an author of which something is staged."""
        return [log_id for author, log_id in self._tails if author == public_key]

    def hash_at(self, public_key: bytes, log_id: int, seq_num: int) -> bytes | None:
        """The hash of a held or staged entry."""
        tail = self._tails.get((public_key, log_id))
        if tail is not None:
            found = tail.staged.get(seq_num)
            if found is not None:
                return found
        return self._store.entry_hash(public_key, log_id, seq_num)

    def stage(
        self, checked: CheckedOperation, schema_ids: Set[str] | None = None, remote: bytes | None = None
    ) -> bool:
        """Take an entry; False if it is held or staged already. Raises what forbids to take it.

        `schema_ids` are the session's schemas, `remote` is who brought it; None where there is no session.
        """
        if schema_ids is not None and checked.schema_id not in schema_ids:
            raise ForeignSchemaError(f"the session is not about {checked.schema_id[:200]}")
        place = self._place(checked)
        if place is None:
            return False
        if remote is not None:
            # Last: an entry that is admitted is staged.
            self._admit(checked, remote)
        tail, document_id = place
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
        """Raise what forbids to take an entry; nothing is staged.

        Its hash counts for nothing unless it is held, so an entry can be checked before it is signed.
        """
        self._place(checked)

    def _place(self, checked: CheckedOperation) -> tuple[_Tail, bytes | None] | None:
        """The tail and the document that the entry continues, None if it is held; raises what forbids it."""
        entry = checked.entry
        key = (entry.public_key, entry.log_id)
        tail = self._tails.get(key) or self._tail(key)
        seq_num = entry.seq_num
        if seq_num <= tail.height:
            held = self.hash_at(*key, seq_num)
            if held == checked.hash:
                return None
            assert held is not None, "a log has no gaps below its height"
            raise ForkError(f"entry {seq_num} of log {entry.log_id} is held with another hash, {held.hex()}")
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
        """These are stored now; what was staged of them is in the store."""
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
                # It came into the store by another way than through here.
                self._tails[key] = fresh = self._tail(key)
                fresh.staged = tail.staged

    def discard(self, entries: Sequence[SoundEntry]) -> None:
        """These will not be stored, and neither will what was staged on top of them."""
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
        held = self.hash_at(*key, target)
        if held is None:
            raise SkiplinkUnknownError(f"entry {target} is not held")
        if held != skiplink:
            raise SkiplinkMismatchError(f"the skiplink of entry {seq_num} does not name the entry {target}")

    def _document(self, checked: CheckedOperation, tail: _Tail) -> bytes | None:
        """The document of the entry as far as it is known; raises where entry and log do not fit."""
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
        found: bytes | None = None
        for operation_id in previous:
            if operation_id == tail.last_hash:
                document_id = tail.document_id
            else:
                document_id = self.document_of(operation_id)
            if document_id is None:
                continue
            if found is not None and document_id != found:
                raise LogIdError(f"entry {checked.entry.seq_num} follows operations of two documents")
            found = document_id
        return found
