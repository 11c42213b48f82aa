"""Logs that a remote is not sent in full, because they hold an entry that no message can carry.

Nothing of that size is taken today, but a store may hold some from before. Sending one would end the remote's
stream; sending what follows on it would be refused there. Everything else goes out.
"""

from collections.abc import Iterable
from typing import TypeAlias

from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda import events
from culm_models.p2panda.events import EventQueue
from culm_models.p2panda.operations.errors import OperationTooLargeError
from culm_models.p2panda.operations.operation import check_size
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.table import SessionTable

Pair: TypeAlias = tuple[bytes, bytes]
"""The bytes of an entry and of its operation."""


class WithheldLogs:
    """The logs of one link, each with the first entry that the remote lacks and that is too large."""

    def __init__(self, remote: bytes, sessions: SessionTable, queue: EventQueue) -> None:
        self._remote = remote
        self._sessions = sessions
        self._events = queue
        self._first: dict[LogKey, int] = {}

    def __contains__(self, log: LogKey) -> bool:
        return log in self._first

    def sendable(self, part: EntryRange, pairs: Iterable[Pair]) -> list[Pair]:
        """These entries of a part of a log, up to the first one that is too large."""
        log = (part.public_key, part.log_id)
        if part.first_seq_num > self._first.get(log, part.first_seq_num):
            # The remote has shown to hold that entry by now.
            del self._first[log]
        taken: list[Pair] = []
        for seq_num, pair in enumerate(pairs, part.first_seq_num):
            if not self._is_sendable(log, seq_num, *pair):
                break
            taken.append(pair)
        return taken

    def sends(self, checked: SoundEntry) -> bool:
        """Whether an entry goes out that has just been stored."""
        return checked.log not in self._first and self._is_sendable(
            checked.log, checked.entry.seq_num, checked.entry_bytes, checked.payload_bytes
        )

    def _is_sendable(self, log: LogKey, seq_num: int, entry: bytes, operation: bytes) -> bool:
        try:
            check_size(operation)
        except OperationTooLargeError as error:
            if log not in self._first:
                self._first[log] = seq_num
                for session in self._sessions:
                    session.drop_unsent(log)
                event = events.Withheld(self._remote, error.code, str(error), *log, seq_num, entry)
                self._events.add(event)
            return False
        return True
