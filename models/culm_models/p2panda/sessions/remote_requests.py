"""Requests of one remote for sessions (specification "replication", 2): accepted, refused, or delayed.

By the specification, a request about schemas that are not announced yet is ignored, so that a peer that asks
a moment too early waits for an answer that never comes. Here the request may wait for our announcement
instead, for a limited time and in a limited number for each remote.
"""

from collections.abc import Callable, Sequence
from typing import Final

from culm_models.p2panda import errors
from culm_models.p2panda.reconciliation.reconciling import Reconciling
from culm_models.p2panda.sessions import requests
from culm_models.p2panda.sessions.announcement import LinkAnnouncements
from culm_models.p2panda.sessions.lifecycle import SessionLifecycle
from culm_models.p2panda.sessions.session import Session
from culm_models.p2panda.sessions.table import PeerState
from culm_models.p2panda.wire.messages import (
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    SyncDone,
    SyncRequest,
)

MAX_WAITING: Final = 16
"""Waiting requests of one remote; together they name at most `max_schema_ids` schemas."""


class RemoteRequests:
    """Answers the requests of one remote. `request_session` requests a session of our own instead."""

    def __init__(
        self,
        peer: PeerState,
        remote: bytes,
        announcements: LinkAnnouncements,
        lifecycle: SessionLifecycle,
        reconciling: Reconciling,
        *,
        request_session: Callable[[int, Sequence[str], int], int | None],
    ) -> None:
        self._peer = peer
        self._remote = remote
        self._announcements = announcements
        self._lifecycle = lifecycle
        self._sessions = lifecycle.sessions
        self._reconciling = reconciling
        self._request_session = request_session
        # Requests that came too early, in order of arrival, each with the time until which it waits.
        self._waiting: dict[int, tuple[SyncRequest, int]] = {}

    def receive(self, message: SyncRequest, now: int) -> None:
        """Process a request for a session."""
        ours = self._announcements.ours
        try:
            self._sessions.check_shape(message.mode, message.schema_ids)
            if ours is None or not set(message.schema_ids) <= set(ours.schema_ids):
                if self._sessions.get(message.session_id) is None and self._hold(message, now):
                    return
                raise errors.NotAnnouncedError("the request is not within our announcement")
            yielding = self._sessions.yielding(message)
            if not yielding:
                self._lifecycle.check_capacity()
            have = (
                requests.have(self._peer, message.session_id, message.schema_ids)
                if not message.mode
                else None
            )
        except errors.SessionError as error:
            self.ignore(message)
            self._peer.events.ignored(self._remote, error, message.session_id)
            self._refuse_request(message, error, now)
            return
        asked_for = [session for session in yielding if session.local and not session.is_refused]
        for session in yielding:
            if session.is_refused:
                self._lifecycle.fail(session, errors.RefusedError("the remote asks in another way"), now)
            elif session.local:
                self._lifecycle.end(session, now)
            else:
                self._lifecycle.fail(session, errors.AbandonedError("the remote starts again"), now)
        self._lifecycle.begin(
            Session(self._remote, message.session_id, message.mode, message.schema_ids, local=False, now=now)
        )
        if have is not None:
            self._lifecycle.send(have)
        for session in asked_for:
            if session.schema_ids != message.schema_ids:
                self._request_session(session.mode, session.schema_ids, now)

    def answer_waiting(self, now: int) -> None:
        """Process the requests that waited for our new announcement."""
        ours = self._announcements.ours
        announced = frozenset(ours.schema_ids if ours is not None else ())
        for request in self._take(
            [i for i, (r, _) in self._waiting.items() if announced.issuperset(r.schema_ids)]
        ):
            self.receive(request, now)

    def ignore(self, request: SyncRequest) -> None:
        """Ignore a request, and the opening that came with it."""
        if request.mode == MODE_SET_RECONCILIATION:
            self._reconciling.ignore(request.session_id)

    def refuse_late(self, now: int) -> None:
        """Refuse the requests that have waited too long for our announcement."""
        for request in self._take([i for i, (_, due) in self._waiting.items() if now >= due]):
            error = errors.NotAnnouncedError("the request has waited too long for our announcement")
            self._peer.events.ignored(self._remote, error, request.session_id)
            self._refuse(request.session_id)

    def withdraw(self, session_id: int) -> bool:
        """Remove a request that the remote withdraws; returns False if none waits under this id."""
        return self._waiting.pop(session_id, None) is not None

    def _hold(self, request: SyncRequest, now: int) -> bool:
        """Let a request wait; returns False if it is to be ignored.

        A request for set reconciliation is ignored, because its opening follows it and would have to be kept,
        too. Raises `DuplicateSessionError` if a request with its id or its schemas is already waiting.
        """
        settings = self._peer.settings
        if not settings.waits_for_announcement_ms or request.mode != MODE_LOG_HEIGHT:
            return False
        waiting = [other for other, _ in self._waiting.values()]
        if any(o.session_id == request.session_id or o.schema_ids == request.schema_ids for o in waiting):
            raise errors.DuplicateSessionError(
                "a request under the same id or about the same schemas is waiting"
            )
        named = len(request.schema_ids) + sum(len(other.schema_ids) for other in waiting)
        if len(waiting) >= MAX_WAITING or named > settings.max_schema_ids:
            return False
        self._waiting[request.session_id] = (request, now + settings.waits_for_announcement_ms)
        return True

    def _take(self, session_ids: list[int]) -> list[SyncRequest]:
        return [self._waiting.pop(session_id)[0] for session_id in session_ids]

    def _refuse_request(self, message: SyncRequest, error: errors.SessionError, now: int) -> None:
        """Refuse a request that should not wait for an answer, and offer a session that may serve it."""
        too_large = isinstance(error, errors.HaveTooLargeError)
        other_mode = isinstance(error, errors.UnsupportedModeError)
        if not too_large and not (other_mode and message.mode == MODE_SET_RECONCILIATION):
            return
        self._refuse(message.session_id)
        if too_large:
            self._request_session(message.mode, message.schema_ids, now)

    def _refuse(self, session_id: int) -> None:
        # An answer under the id of a running session would end that session.
        if self._sessions.get(session_id) is None and self._peer.settings.compat == "spec":
            self._lifecycle.send(SyncDone(session_id, False))
        self._sessions.skip_id(session_id)
