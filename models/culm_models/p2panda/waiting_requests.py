"""Requests for sessions about schemas that we do not announce yet (specification "replication", 2).

The specification has such a request ignored, so that who asks a moment too early waits for an answer that
never comes. Here it may wait for our announcement instead: for a bounded time, and only a few of a remote's.
"""

from __future__ import annotations

from typing import Final

from culm_models.p2panda.messages import MODE_LOG_HEIGHT, SyncRequest
from culm_models.p2panda.session_errors import DuplicateSessionError

MAX_WAITING: Final = 16
"""Requests of one remote; they name `max_schema_ids` schemas at most, all together."""


class WaitingRequests:
    """What one remote asked for too early, in the order in which it did. Times are in milliseconds."""

    __slots__ = ("_max_schema_ids", "_wait_ms", "_waiting")

    def __init__(self, wait_ms: int, max_schema_ids: int) -> None:
        self._wait_ms = wait_ms
        self._max_schema_ids = max_schema_ids
        self._waiting: dict[int, tuple[SyncRequest, int]] = {}

    def hold(self, request: SyncRequest, now: int) -> bool:
        """Let a request wait; False where it is to be ignored.

        One of set reconciliation is: its opening comes right behind it and would have to be kept, too.
        Raises `DuplicateSessionError` where one with its id or its schemas waits already.
        """
        if not self._wait_ms or request.mode != MODE_LOG_HEIGHT:
            return False
        held = [other for other, _ in self._waiting.values()]
        if any(o.session_id == request.session_id or o.schema_ids == request.schema_ids for o in held):
            raise DuplicateSessionError("a request under the same id or about the same schemas is waiting")
        named = len(request.schema_ids) + sum(len(other.schema_ids) for other in held)
        if len(held) >= MAX_WAITING or named > self._max_schema_ids:
            return False
        self._waiting[request.session_id] = (request, now + self._wait_ms)
        return True

    def drop(self, session_id: int) -> bool:
        """The remote takes a request back; False where none waits under this id."""
        return self._waiting.pop(session_id, None) is not None

    def take_announced(self, announced: frozenset[str]) -> list[SyncRequest]:
        """The requests that wait no longer, since all their schemas are announced."""
        return self._take([i for i, (r, _) in self._waiting.items() if announced.issuperset(r.schema_ids)])

    def take_late(self, now: int) -> list[SyncRequest]:
        """The requests that have waited for too long."""
        return self._take([i for i, (_, due) in self._waiting.items() if now >= due])

    def _take(self, session_ids: list[int]) -> list[SyncRequest]:
        return [self._waiting.pop(session_id)[0] for session_id in session_ids]
