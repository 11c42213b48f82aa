"""Entries that one p2panda node refuses, inferred from what it holds afterwards: a node reports nothing.

A node ends a session with the first entry that it refuses, and drops everything behind. So when the next
session begins, the first entry in the order of sending that it is still missing is the refused one, if it
took nothing that was sent behind it. Such an entry is sent again in ever fewer sessions (the node may have
been disturbed), last of all, and after some attempts not at all on this connection.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.reconciliation.ranges import EntryRange

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 6
"""Attempts at an entry: an entry that was refused is sent again after 1, 2, 4, 8 and 16 sessions."""
_MAX_SENT = 4_096
_MAX_REFUSED = 10_000


@dataclass(slots=True)
class _Refused:
    seq_num: int
    attempts: int
    again_in_session: int


@dataclass(slots=True)
class Refusals:
    """The refusals of one connection. At most 4,096 ranges and 10,000 refusals are remembered."""

    name: str
    _sent: list[tuple[bytes, EntryRange]] = field(default_factory=list)
    """Documents and ranges of the last session, in the order of sending; at most `_MAX_SENT`."""
    _refused: dict[LogKey, _Refused] = field(default_factory=dict)
    _sessions: int = 0

    def begin(self, lacking: Mapping[LogKey, EntryRange]) -> None:
        """Begin a session in which the node is missing these ranges, by log."""
        self._sessions += 1
        for log, refused in tuple(self._refused.items()):
            if log not in lacking or lacking[log].first_seq_num > refused.seq_num:
                del self._refused[log]
        self._judge(lacking)
        self._sent.clear()

    def _judge(self, lacking: Mapping[LogKey, EntryRange]) -> None:
        for position, (document_id, part) in enumerate(self._sent):
            if not _has_taken(lacking, part, part.last_seq_num):
                behind = self._sent[position + 1 :]
                if not any(_has_taken(lacking, other, other.first_seq_num) for _, other in behind):
                    self._refuse(document_id, lacking[part.public_key, part.log_id])
                return

    def _refuse(self, document_id: bytes, lacking: EntryRange) -> None:
        log, seq_num = (lacking.public_key, lacking.log_id), lacking.first_seq_num
        before = self._refused.pop(log, None)
        attempts = 1 if before is None or before.seq_num != seq_num else before.attempts + 1
        if attempts == 1:
            logger.warning(
                "%s does not take document %s: entry %d of log %d of %s is refused",
                *(self.name, document_id.hex(), seq_num, lacking.log_id, lacking.public_key.hex()),
            )
        elif attempts == MAX_ATTEMPTS:
            logger.warning(
                "%s has refused entry %d of log %d of %s %d times: document %s is not sent to it again "
                "before it reconnects",
                *(self.name, seq_num, lacking.log_id, lacking.public_key.hex(), attempts, document_id.hex()),
            )
        again = self._sessions + 2 ** (attempts - 1) - 1
        self._refused[log] = _Refused(seq_num, attempts, again)
        if len(self._refused) > _MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def is_suspect(self, log: LogKey) -> bool:
        """Whether the node has refused the next entry of a log, which is worth another attempt now."""
        refused = self._refused.get(log)
        return refused is not None and self._is_due(refused)

    def end_of(self, part: EntryRange) -> int:
        """Return the last entry of a range that is worth sending now; below its first if there is none."""
        refused = self._refused.get((part.public_key, part.log_id))
        return part.last_seq_num if refused is None or self._is_due(refused) else refused.seq_num - 1

    def _is_due(self, refused: _Refused) -> bool:
        return refused.attempts < MAX_ATTEMPTS and self._sessions >= refused.again_in_session

    def sent(self, document_id: bytes, part: EntryRange) -> None:
        """Note a range of a document that is about to be sent."""
        if len(self._sent) < _MAX_SENT:
            self._sent.append((document_id, part))


def _has_taken(lacking: Mapping[LogKey, EntryRange], part: EntryRange, seq_num: int) -> bool:
    left = lacking.get((part.public_key, part.log_id))
    return left is None or left.first_seq_num > seq_num
