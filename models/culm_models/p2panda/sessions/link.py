"""The protocol with one remote: our announcements and requests, and the effects of the remote's messages."""

from collections.abc import Sequence, Set

from culm_models.bamboo.checks import SoundEntry
from culm_models.errors import CulmError
from culm_models.p2panda import errors, events
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.reconciliation.reconciling import Reconciling
from culm_models.p2panda.sessions import announcement, requests
from culm_models.p2panda.sessions.announcement import AnnouncementError, LinkAnnouncements
from culm_models.p2panda.sessions.auto_sync import AutoSync
from culm_models.p2panda.sessions.lifecycle import SessionLifecycle
from culm_models.p2panda.sessions.outbox import QueuedMessage, SendQueue, WithheldLogs
from culm_models.p2panda.sessions.remote_requests import RemoteRequests
from culm_models.p2panda.sessions.session import Session, SessionState
from culm_models.p2panda.sessions.table import PeerState
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import (
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    Announce,
    Have,
    SyncDone,
    SyncRequest,
)
from culm_models.reconciliation import ReconciliationError
from culm_models.reconciliation.messages import ReconciliationMessage


class Link:
    """The protocol with one remote. Messages from the remote never raise errors out of this class."""

    def __init__(
        self,
        peer: PeerState,
        remote: bytes,
        *,
        dialled: bool,
        now: int,
        allowed: Set[str] | None = None,
    ) -> None:
        """`allowed`: the schemas that the remote may replicate; None for all of them."""
        settings = peer.settings
        self.remote = remote
        self.dialled = dialled
        self.stream = MessageStream(settings.max_message_bytes, settings.max_message_items)
        self.failed: CulmError | None = None
        self.announcements = LinkAnnouncements(settings, allowed)
        self.outbox = SendQueue(settings.max_outgoing, settings.max_outgoing_bytes)
        self._peer = peer
        self._auto = AutoSync(settings, peer.rng, now)
        self._reconciling = Reconciling(peer, remote, self.outbox, self.stream)
        self._lifecycle = SessionLifecycle(peer, remote, self._auto, self.outbox, self._reconciling, now)
        self.sessions = self._lifecycle.sessions
        self.withheld = WithheldLogs(remote, self.sessions, peer.events)
        self.requests = RemoteRequests(
            peer, remote, self.announcements, self._lifecycle, self._reconciling, request_session=self.sync
        )

    def announce(self) -> None:
        """Send the remote our latest announcement."""
        latest = self._peer.announcement
        renewed = self.announcements.renew(latest) if latest is not None else None
        if renewed is not None and self.failed is None:
            self._lifecycle.send(renewed)

    def unannounce(self, dropped: Set[str], now: int) -> None:
        """Note that one side withdrew these schemas: their sessions do not continue in live mode."""
        for session in self.sessions:
            if not session.schemas.isdisjoint(dropped):
                if session.state is SessionState.LIVE:
                    self._lifecycle.stop_live(session, now)
                else:
                    session.leaving = True

    def sync(self, mode: int, schema_ids: Sequence[str], now: int) -> int | None:
        """Request a session; returns its id, or None (and an `Ignored` event) if that is not possible.

        If our logs do not fit in one `Have`, the session uses set reconciliation if the remote offers that.
        Otherwise there are several sessions about fewer schemas, and the id of the first one is returned. For
        a schema that does not fit by itself, set reconciliation is tried even with a remote that offers
        nothing.
        """
        wanted = identifiers.normalise(schema_ids)
        try:
            if self.failed is not None:
                raise errors.NotConnectedError("the link to the remote has failed")
            self.sessions.check_shape(mode, wanted)
            theirs = self.announcements.theirs
            if theirs is not None and not set(wanted) <= set(theirs.schema_ids):
                raise errors.NotAnnouncedError("the remote does not announce all of these schemas")
            self.sessions.check_own(wanted)
            self._lifecycle.check_capacity()
            fitting = requests.fitting(
                self._peer, self.remote, self._auto, self.announcements.offer, mode, wanted
            )
        except errors.SessionError as error:
            self._peer.events.ignored(self.remote, error)
            return None
        fits = len(self.sessions) + len(fitting) <= self._peer.settings.max_sessions_per_peer
        fitting.sort(key=lambda request: self._auto.turn(request[1]))
        ids = [self._ask(*request, now, wants_live=fits) for request in fitting]
        return next((session_id for session_id in ids if session_id is not None), None)

    def _ask(self, mode: int, schema_ids: tuple[str, ...], now: int, *, wants_live: bool) -> int | None:
        try:
            self.sessions.check_own(schema_ids)
            self._lifecycle.check_capacity()
        except errors.SessionError as error:
            self._peer.events.ignored(self.remote, error)
            return None
        session_id = self.sessions.next_id(now)
        session = Session(
            self.remote, session_id, mode, schema_ids, local=True, now=now, wants_live=wants_live
        )
        self._lifecycle.begin(session)
        self._auto.asked_for(schema_ids, self.announcements.common)
        self._lifecycle.send(SyncRequest(session_id, mode, schema_ids))
        if mode == MODE_SET_RECONCILIATION:
            self._reconciling.open(session, self.announcements.offer)
        return session_id

    def sync_common(self, now: int) -> None:
        """Request a session about the schemas that both sides announce and no session covers."""
        if not self.dialled or self.failed is not None or not self._peer.settings.auto_sync:
            return
        self._auto.begun()
        wanted = [schema for schema in self.announcements.common if not self.sessions.covers(schema)]
        wanted.sort(key=lambda schema: self._auto.turn((schema,)))
        chosen = wanted[: self._peer.settings.max_schema_ids]
        if chosen and self.sync(self._auto.mode(self.announcements.offer), chosen, now) is None:
            self._auto.failed(now)

    def deliver(self, session: Session, checked: SoundEntry) -> None:
        """Send a stored entry in a session that it concerns, or remember it until it may be sent."""
        if not self.withheld.sends(checked):
            return
        entry = checked.entry
        live = self.sessions.live_for(checked.schema_id)
        if live is session and not session.has_unsent and not self.outbox.is_full:
            data = codec.encode_entry_message(session.session_id, checked.entry_bytes, checked.payload_bytes)
            log = (entry.public_key, entry.log_id)
            self.outbox.append(QueuedMessage(data, session.session_id, (log, entry.seq_num)))
        elif live is session or (live is None and session.planned):
            # If the remote reads slowly, ranges of logs wait in place of the entries themselves.
            session.note_stored(entry.public_key, entry.log_id, entry.seq_num)

    def stop_live(self, session_id: int, now: int) -> None:
        """Leave a session's live mode; has no effect if the session is not live."""
        session = self.sessions.get(session_id)
        if session is not None and session.state is SessionState.LIVE:
            self._lifecycle.stop_live(session, now)

    def refill(self) -> None:
        """Fill an empty queue with the entries that waited for it."""
        if self.outbox:
            return
        for session in self.sessions:
            if session.rest is not None:
                self._go_on(session)
            elif session.state is SessionState.LIVE and session.has_unsent:
                self.outbox.extend(session.take_unsent())
        self.outbox.is_partial = any(session.rest is not None for session in self.sessions)

    def _go_on(self, session: Session) -> None:
        """Queue a slice of the rest; after the last slice comes `SyncDone`."""
        assert session.rest is not None, "it has a rest"
        parts = next(session.rest, None)
        if parts is not None:
            self.outbox.extend(parts)
            return
        session.rest = None
        self._reconciling.end_rest(session)
        self._say_done(session, session.last_activity)

    def _say_done(self, session: Session, now: int) -> None:
        """Send `SyncDone` if everything that the remote is missing is queued."""
        if session.rest is None:
            self._lifecycle.send(session.all_planned(live_mode=self._peer.settings.offers_live_mode))
            self._after_done(session, now)

    def tick(self, now: int, *, is_busy: bool = False) -> None:
        """Advance time; `is_busy`: messages of the remote wait to be applied."""
        if self.failed is not None:
            return
        self._lifecycle.tick(now, is_busy=is_busy)
        if self._auto.is_due(now):
            self.sync_common(now)
        self.requests.refuse_late(now)

    def close(self, error: CulmError) -> None:
        """Fail all sessions, because the link is down or no longer usable."""
        for session in self.sessions:
            self._lifecycle.fail(session, error, session.last_activity)
        self.outbox.clear()

    def _after_done(self, session: Session, now: int) -> None:
        if session.state is SessionState.LIVE and session.leaving:
            self._lifecycle.stop_live(session, now)
            self.sync_common(now)
        else:
            self._lifecycle.go_live_or_finish(session, now)

    # Messages of the remote.

    def on_announce(self, message: Announce, now: int) -> None:
        """Process the remote's announcement."""
        raw = message.raw if message.raw is not None else codec.encode(message)
        try:
            former = self.announcements.receive(message)
        except AnnouncementError as error:
            self._peer.events.ignored(self.remote, error)
            return
        message, offer = announcement.without_offer(message)
        self._peer.events.add(
            events.Announced(self.remote, message.schema_ids, message.timestamp, raw, offer)
        )
        named = frozenset(message.schema_ids)
        for session in self.sessions:
            # The remote ignores this request: it had not answered it when it sent the new announcement.
            if session.state is SessionState.PENDING and not session.schemas <= named:
                self._lifecycle.fail(session, errors.NotAnnouncedError("the remote lost interest"), now)
        if former is not None:
            self.unannounce(frozenset(former.schema_ids) - named, now)
        self.sync_common(now)

    def on_have(self, message: Have, now: int) -> None:
        """Process the heights of the logs that the remote holds."""
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        try:
            if session.mode != MODE_LOG_HEIGHT:
                raise errors.UnexpectedMessageError("only log height mode has this message")
            session.check_first_have()
            have = (
                requests.have(self._peer, session.session_id, session.schema_ids) if session.local else None
            )
            plan, heights = session.have_received(
                message.log_heights,
                self._peer.store,
                live_mode=self._peer.settings.offers_live_mode,
                # The entries that a p2panda node can accept, and their order, are only known for all of them
                # together.
                at_once=self._peer.settings.compat == "aquadoggo",
            )
        except errors.HaveTooLargeError as error:
            # The heights have grown since our request: the next session uses another mode or other parts.
            self._lifecycle.give_up(session, error, now)
            return
        except errors.SessionError as error:
            self._peer.events.ignored(self.remote, error, message.session_id)
            return
        if heights:
            self._peer.events.add(events.Heights(self.remote, heights))
        if have is not None:
            self._lifecycle.send(have)
        for item in plan:
            self._lifecycle.send(item)
        if session.rest is None:
            self._after_done(session, now)

    def on_reconciliation(self, message: ReconciliationMessage, now: int) -> None:
        """Process a message of set reconciliation."""
        if self._reconciling.is_ignored(message):
            return
        session = self._session_of(message.session_id, now)
        if session is None:
            self._reconciling.ignore_batch(message)
            return
        if session.mode != MODE_SET_RECONCILIATION:
            error = errors.UnexpectedMessageError("log height mode does not have this message")
            self._peer.events.ignored(self.remote, error, message.session_id)
            self._reconciling.ignore_batch(message)
            return
        if session.reconciled:
            # The echo of our last batch; the remote may need it to be done itself.
            return
        if session.state is SessionState.PENDING:
            session.state = SessionState.ESTABLISHED
        try:
            if self._reconciling.take(session, message, self.announcements.offer):
                self._reconciling.finish(session)
                self._say_done(session, now)
        except (ReconciliationError, errors.SessionError) as failure:
            self._lifecycle.give_up(session, failure, now)

    def on_sync_done(self, message: SyncDone, now: int) -> None:
        """Process `SyncDone`.

        The remote has sent everything, leaves live mode, refuses the session, or withdraws a request.
        """
        if self.sessions.get(message.session_id) is None and self.requests.withdraw(message.session_id):
            return
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        was_live = session.state is SessionState.LIVE
        work = session.reconciliation
        if work is not None and work.asks_for_everything:
            work.end()
            session.done_received(message.live_mode)
            self._reconciling.finish(session)
            self._say_done(session, now)
        elif not message.live_mode and self._is_refusal(session):
            self._lifecycle.fail(session, errors.RefusedError("the remote does not continue it"), now)
            if session.mode != MODE_LOG_HEIGHT:
                # Fall back to log height mode at once.
                self.sync_common(now)
        else:
            session.done_received(message.live_mode)
            if was_live:
                self._lifecycle.finish_if_closed(session, now)
            else:
                self._after_done(session, now)

    def _is_refusal(self, session: Session) -> bool:
        """Whether a `SyncDone(false)` can only mean that the remote does not accept this session.

        In log height mode, some remotes send everything before they send their `Have`; Culm does not.
        """
        if session.mode == MODE_SET_RECONCILIATION:
            return not session.reconciled
        return not session.planned and self.announcements.offer is not None

    def _session_of(self, session_id: int, now: int) -> Session | None:
        session = self.sessions.get(session_id)
        if session is None:
            error = errors.UnknownSessionError(f"there is no session {session_id}")
            self._peer.events.ignored(self.remote, error, session_id)
        else:
            session.last_activity = now
        return session
