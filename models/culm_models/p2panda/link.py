"""The remote's side of a link: what each of its messages does to the conversation with it."""

from collections.abc import Set

from culm_models.p2panda import announcement, codec, events, session_errors
from culm_models.p2panda.announcement import AnnouncementError
from culm_models.p2panda.conversation import Conversation
from culm_models.p2panda.messages import (
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    Announce,
    Have,
    SyncDone,
    SyncRequest,
)
from culm_models.p2panda.peer_state import PeerState
from culm_models.p2panda.ranges import EntryRange
from culm_models.p2panda.session import Session, SessionState
from culm_models.p2panda.session_errors import SessionError
from culm_models.p2panda.waiting_requests import WaitingRequests
from culm_models.reconciliation import ReconciliationError
from culm_models.reconciliation.messages import ReconciliationMessage


class Link(Conversation):
    """The protocol with one remote. Nothing that the remote says raises out of here."""

    def __init__(
        self,
        peer: PeerState,
        remote: bytes,
        *,
        dialled: bool,
        now: int,
        allowed: Set[str] | None = None,
    ) -> None:
        super().__init__(peer, remote, dialled=dialled, now=now, allowed=allowed)
        settings = peer.settings
        self._waiting = WaitingRequests(settings.waits_for_announcement_ms, settings.max_schema_ids)

    def on_announce(self, message: Announce, now: int) -> None:
        """The remote announces its interests."""
        raw = message.raw if message.raw is not None else codec.encode(message)
        message, offer = announcement.without_offer(message)
        try:
            announcement.check_replaces(
                self.announcement,
                message,
                max_schema_ids=self._peer.settings.max_schema_ids,
                max_bytes=self._peer.settings.max_announcement_bytes,
            )
        except AnnouncementError as error:
            self._peer.events.ignored(self.remote, error)
            return
        former, self.announcement, self.offer = self.announcement, message, offer
        self._peer.events.add(
            events.Announced(self.remote, message.schema_ids, message.timestamp, raw, offer)
        )
        named = frozenset(message.schema_ids)
        for session in self.sessions:
            # The remote ignores this request, which it has not answered before it announced anew.
            if session.state is SessionState.PENDING and not session.schemas <= named:
                self._fail(session, session_errors.NotAnnouncedError("the remote lost interest"), now)
        if former is not None:
            self.unannounce(frozenset(former.schema_ids) - named, now)
        self.sync_common(now)

    def on_sync_request(self, message: SyncRequest, now: int) -> None:
        """The remote asks for a session."""
        ours = self.ours
        try:
            self.sessions.check_shape(message.mode, message.schema_ids)
            if ours is None or not set(message.schema_ids) <= set(ours.schema_ids):
                if self.sessions.get(message.session_id) is None and self._waiting.hold(message, now):
                    return
                raise session_errors.NotAnnouncedError("the request is not within our announcement")
            yielding = self.sessions.yielding(message)
            if not yielding:
                self._check_room()
            have = self._have(message.session_id, message.schema_ids) if not message.mode else None
        except SessionError as error:
            self.pass_over(message)
            self._peer.events.ignored(self.remote, error, message.session_id)
            self._refuse_request(message, error, now)
            return
        wished = [session for session in yielding if session.local and not session.is_refused]
        for session in yielding:
            if session.is_refused:
                self._fail(session, session_errors.RefusedError("the remote asks in another way"), now)
            elif session.local:
                self._end(session, now)
            else:
                self._fail(session, session_errors.AbandonedError("the remote begins anew"), now)
        self._begin(
            Session(self.remote, message.session_id, message.mode, message.schema_ids, local=False, now=now)
        )
        if have is not None:
            self._send(have)
        for session in wished:
            if session.schema_ids != message.schema_ids:
                self.sync(session.mode, session.schema_ids, now)

    def answer_waiting(self, now: int) -> None:
        """Our announcement is a new one: requests that waited for it come into their own."""
        ours = self.ours
        if ours is not None and self.failed is None:
            for request in self._waiting.take_announced(frozenset(ours.schema_ids)):
                self.on_sync_request(request, now)

    def tick(self, now: int, *, is_busy: bool = False) -> None:
        """Time has passed, for requests that wait for our announcement too."""
        super().tick(now, is_busy=is_busy)
        if self.failed is not None:
            return
        for request in self._waiting.take_late(now):
            error = session_errors.NotAnnouncedError("the request has waited too long for our announcement")
            self._peer.events.ignored(self.remote, error, request.session_id)
            self._refuse(request.session_id)

    def pass_over(self, request: SyncRequest) -> None:
        """A request is ignored, and with it the opening that came behind it."""
        if request.mode == MODE_SET_RECONCILIATION:
            self._reconciling.pass_over(request.session_id)

    def _refuse_request(self, message: SyncRequest, error: SessionError, now: int) -> None:
        """Say so where the remote should not wait for an answer: another session may serve it."""
        too_large = isinstance(error, session_errors.HaveTooLargeError)
        other_mode = isinstance(error, session_errors.UnsupportedModeError)
        if not too_large and not (other_mode and message.mode == MODE_SET_RECONCILIATION):
            return
        self._refuse(message.session_id)
        if too_large:
            self.sync(message.mode, message.schema_ids, now)

    def _refuse(self, session_id: int) -> None:
        # An answer under the id of a session that runs would end that.
        if self.sessions.get(session_id) is None and self._peer.settings.compat == "spec":
            self._send(SyncDone(session_id, False))
        self.sessions.skip_id(session_id)

    def on_have(self, message: Have, now: int) -> None:
        """The remote shows what it holds."""
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        try:
            if session.mode != MODE_LOG_HEIGHT:
                raise session_errors.UnexpectedMessageError("only log height mode has this message")
            session.check_first_have()
            have = self._have(session.session_id, session.schema_ids) if session.local else None
            plan, heights = session.have_received(
                message.log_heights,
                self._peer.store,
                live_mode=self._peer.settings.offers_live_mode,
                # What a node can take, and in which order, is known of all of it together.
                at_once=self._peer.settings.compat == "aquadoggo",
            )
        except session_errors.HaveTooLargeError as error:
            # It has grown since we asked: the next session is another one.
            self._give_up(session, error, now)
            return
        except SessionError as error:
            self._peer.events.ignored(self.remote, error, message.session_id)
            return
        if heights:
            self._peer.events.add(events.Heights(self.remote, heights))
        if have is not None:
            self._send(have)
        for item in plan:
            if isinstance(item, EntryRange):
                self.outbox.append(item)
            else:
                self._send(item)
        if session.rest is None:
            self._after_done(session, now)

    def on_reconciliation(self, message: ReconciliationMessage, now: int) -> None:
        """A message of set reconciliation."""
        if self._reconciling.is_passed_over(message):
            return
        session = self._session_of(message.session_id, now)
        if session is None:
            self._reconciling.unwanted(message)
            return
        if session.mode != MODE_SET_RECONCILIATION:
            error = session_errors.UnexpectedMessageError("log height mode does not have this message")
            self._peer.events.ignored(self.remote, error, message.session_id)
            self._reconciling.unwanted(message)
            return
        if session.reconciled:
            # The echo of our last batch, which a remote may need to be done itself.
            return
        if session.state is SessionState.PENDING:
            session.state = SessionState.ESTABLISHED
        try:
            if self._reconciling.take(session, message, self.offer):
                self._finish_reconciliation(session, now)
        except (ReconciliationError, SessionError) as failure:
            self._give_up(session, failure, now)

    def _finish_reconciliation(self, session: Session, now: int) -> None:
        self._reconciling.finish(session)
        self._say_done(session, now)

    def on_sync_done(self, message: SyncDone, now: int) -> None:
        """The remote has sent all it had, leaves live mode, refuses the session, or takes a request back."""
        if self.sessions.get(message.session_id) is None and self._waiting.drop(message.session_id):
            return
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        was_live = session.state is SessionState.LIVE
        work = session.reconciliation
        if work is not None and work.asks_for_everything:
            work.end()
            session.done_received(message.live_mode)
            self._finish_reconciliation(session, now)
        elif not message.live_mode and self._is_refusal(session):
            self._fail(session, session_errors.RefusedError("the remote does not go on with it"), now)
            if session.mode != MODE_LOG_HEIGHT:
                # Log height mode is there at once.
                self.sync_common(now)
        else:
            session.done_received(message.live_mode)
            if was_live:
                self._finish_if_closed(session, now)
            else:
                self._after_done(session, now)

    def _is_refusal(self, session: Session) -> bool:
        """Whether a no can mean nothing but that the remote does not hold this session.

        In log height mode a remote may have said all before it shows what it holds; ours does not.
        """
        if session.mode == MODE_SET_RECONCILIATION:
            return not session.reconciled
        return not session.planned and self.offer is not None

    def _session_of(self, session_id: int, now: int) -> Session | None:
        session = self.sessions.get(session_id)
        if session is None:
            error = session_errors.UnknownSessionError(f"there is no session {session_id}")
            self._peer.events.ignored(self.remote, error, session_id)
        else:
            session.last_activity = now
        return session
