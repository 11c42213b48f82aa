"""One remote of a peer while a link to it is up: its announcement, its sessions, what goes out to it."""

from collections.abc import Sequence, Set

from culm_models.errors import CulmError
from culm_models.p2panda import (
    announcement,
    codec,
    events,
    have_codec,
    schema_id,
    schema_parts,
    session_errors,
)
from culm_models.p2panda.announcement import AnnouncementError
from culm_models.p2panda.auto_sync import AutoSync
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.messages import (
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    Announce,
    Have,
    LogHeight,
    Message,
    SyncDone,
    SyncRequest,
)
from culm_models.p2panda.offers import Offer
from culm_models.p2panda.outbox import Outbox
from culm_models.p2panda.peer_state import PeerState
from culm_models.p2panda.ranges import EntryRange
from culm_models.p2panda.reconciling import Reconciling
from culm_models.p2panda.session import Session, SessionState
from culm_models.p2panda.session_errors import SessionError
from culm_models.p2panda.session_table import SessionTable
from culm_models.p2panda.stream import MessageStream
from culm_models.reconciliation import ReconciliationError
from culm_models.reconciliation.messages import ReconciliationMessage


class Link:
    """The protocol with one remote. Nothing that the remote says raises out of here."""

    def __init__(self, peer: PeerState, remote: bytes, *, dialled: bool, now: int) -> None:
        self.remote = remote
        self.dialled = dialled
        self.stream = MessageStream(peer.settings.max_message_bytes)
        self.failed: CulmError | None = None
        self.announcement: Announce | None = None
        self.offer: Offer | None = None
        self.sessions = SessionTable(peer.peer_id, remote, peer.settings, now)
        self.outbox = Outbox()
        self._peer = peer
        self._auto = AutoSync(peer.settings, peer.rng, now)
        self._reconciling = Reconciling(peer, remote, self.outbox, self.stream)
        # How many items had left the queue when it was last looked at, and when that was less.
        self._sent_count = 0
        self._moved_at = now
        peer.tables[remote] = self.sessions

    # What goes out.

    def announce(self) -> None:
        """Tell the remote our latest announcement."""
        if self._peer.announcement is not None and self.failed is None:
            self._send(announcement.with_offer(self._peer.announcement, self._peer.settings.offer))

    def unannounce(self, dropped: Set[str], now: int) -> None:
        """One side lost interest in these: no session about them goes on in live mode."""
        for session in self.sessions:
            if not session.schemas.isdisjoint(dropped):
                if session.state is SessionState.LIVE:
                    self.stop_live(session, now)
                else:
                    session.leaving = True

    def sync(self, mode: int, schema_ids: Sequence[str], now: int) -> int | None:
        """Ask for a session; returns its id, or None (and an `Ignored` event) where that cannot be.

        Where our logs do not fit one `Have` the session is one of set reconciliation if the remote offers
        that, and else several about fewer schemas, of which the first one's id is returned.
        """
        wanted = schema_id.normalise(schema_ids)
        try:
            if self.failed is not None:
                raise session_errors.NotConnectedError("the link to the remote has failed")
            self.sessions.check_shape(mode, wanted)
            if self.announcement is not None and not set(wanted) <= set(self.announcement.schema_ids):
                raise session_errors.NotAnnouncedError("the remote does not announce all of these schemas")
            self.sessions.check_own(wanted)
            self._check_room()
            mode, parts = self._fitting(mode, wanted)
        except SessionError as error:
            self._peer.events.ignored(self.remote, error)
            return None
        fits = len(self.sessions) + len(parts) <= self._peer.settings.max_sessions_per_peer
        in_turn = sorted(parts, key=self._auto.turn)
        ids = [self._ask(mode, part, now, wants_live=fits) for part in in_turn]
        return next((session_id for session_id in ids if session_id is not None), None)

    def _fitting(self, mode: int, wanted: tuple[str, ...]) -> tuple[int, Sequence[tuple[str, ...]]]:
        """The mode and the schemas of the sessions that serve this wish. Raises `HaveTooLargeError`."""
        if mode != MODE_LOG_HEIGHT:
            return mode, (wanted,)
        split = schema_parts.split(self._peer.store, wanted, self._peer.settings.max_message_bytes)
        if split.parts == (wanted,):
            return mode, split.parts
        if self._auto.can_have(MODE_SET_RECONCILIATION, self.offer):
            return MODE_SET_RECONCILIATION, (wanted,)
        if split.too_large:
            error = _too_large(split.too_large)
            if not split.parts:
                raise error
            self._peer.events.ignored(self.remote, error)
        return mode, split.parts

    def _ask(self, mode: int, schema_ids: tuple[str, ...], now: int, *, wants_live: bool) -> int | None:
        try:
            self.sessions.check_own(schema_ids)
            self._check_room()
        except SessionError as error:
            self._peer.events.ignored(self.remote, error)
            return None
        session_id = self.sessions.next_id(now)
        session = Session(
            self.remote, session_id, mode, schema_ids, local=True, now=now, wants_live=wants_live
        )
        self._begin(session)
        self._auto.asked_for(schema_ids, self._common)
        self._send(SyncRequest(session_id, mode, schema_ids))
        if mode == MODE_SET_RECONCILIATION:
            self._reconciling.open(session, self.offer)
        return session_id

    def _check_room(self) -> None:
        self.sessions.check_room(self.outbox.sent_count)
        self._peer.check_share(self.remote)

    @property
    def _common(self) -> tuple[str, ...]:
        return announcement.common(self._peer.announcement, self.announcement)

    def sync_common(self, now: int) -> None:
        """Ask for a session about what both announce and no session is about."""
        if not self.dialled or self.failed is not None or not self._peer.settings.auto_sync:
            return
        self._auto.begun()
        wanted = [schema for schema in self._common if not self.sessions.covers(schema)]
        wanted.sort(key=lambda schema: self._auto.turn((schema,)))
        chosen = wanted[: self._peer.settings.max_schema_ids]
        if chosen and self.sync(self._auto.mode(self.offer), chosen, now) is None:
            self._auto.failed(now)

    def stop_live(self, session: Session, now: int) -> None:
        """Leave live mode."""
        assert session.state is SessionState.LIVE, "only a live session can be left"
        self._send(SyncDone(session.session_id, False))
        session.state = SessionState.CLOSED
        self._finish_if_closed(session, now)

    def deliver(self, session: Session, checked: CheckedEntry) -> None:
        """An entry is stored that this session concerns: send it, or remember it until that is due."""
        entry = checked.entry
        live = self.sessions.live_for(checked.schema_id)
        if live is not None and live is not session:
            return
        if live is None:
            if session.planned:
                session.note_stored(entry.public_key, entry.log_id, entry.seq_num)
        elif session.has_unsent or self._is_full:
            # A remote that takes slowly: ranges of logs wait in place of the entries themselves.
            session.note_stored(entry.public_key, entry.log_id, entry.seq_num)
        else:
            self.outbox.append(
                codec.encode_entry_message(session.session_id, checked.entry_bytes, checked.operation_bytes)
            )

    @property
    def _is_full(self) -> bool:
        settings = self._peer.settings
        waits = self.outbox
        return len(waits) >= settings.max_outgoing or waits.waiting_bytes >= settings.max_outgoing_bytes

    def refill(self) -> None:
        """Put what waited for the queue to empty into it."""
        if not self.outbox:
            for session in self.sessions:
                if session.state is SessionState.LIVE and session.has_unsent:
                    self.outbox.extend(session.take_unsent())

    def _send(self, message: Message) -> None:
        self.outbox.append(codec.encode(message, self._peer.settings.compat))

    # What comes in.

    def on_announce(self, message: Announce, now: int) -> None:
        """The remote announces its interests."""
        raw = message.raw if message.raw is not None else codec.encode(message)
        message, offer = announcement.without_offer(message)
        try:
            announcement.check_replaces(self.announcement, message, self._peer.settings.max_schema_ids)
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
        ours = self._peer.announcement
        try:
            self.sessions.check_shape(message.mode, message.schema_ids)
            if ours is None or not set(message.schema_ids) <= set(ours.schema_ids):
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
        for session in yielding:
            if session.local:
                self._end(session, now)
            else:
                self._fail(session, session_errors.AbandonedError("the remote begins anew"), now)
        self._begin(
            Session(self.remote, message.session_id, message.mode, message.schema_ids, local=False, now=now)
        )
        if have is not None:
            self._send(have)
        for session in yielding:
            if session.local and session.schema_ids != message.schema_ids:
                self.sync(session.mode, session.schema_ids, now)

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
        # An answer under the id of a session that runs would end that.
        if self.sessions.get(message.session_id) is None and self._peer.settings.compat == "spec":
            self._send(SyncDone(message.session_id, False))
        self.sessions.skip_id(message.session_id)
        if too_large:
            self.sync(message.mode, message.schema_ids, now)

    def on_have(self, message: Have, now: int) -> None:
        """The remote shows what it holds."""
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        try:
            if session.mode != MODE_LOG_HEIGHT:
                raise session_errors.UnexpectedMessageError("only log height mode has this message")
            have = self._have(session.session_id, session.schema_ids) if session.local else None
            plan = session.have_received(
                message.log_heights, self._peer.store, live_mode=self._peer.settings.offers_live_mode
            )
        except session_errors.HaveTooLargeError as error:
            # It has grown since we asked: the next session is another one.
            self._give_up(session, error, now)
            return
        except SessionError as error:
            self._peer.events.ignored(self.remote, error, message.session_id)
            return
        self._peer.events.add(events.Heights(self.remote, message.log_heights))
        if have is not None:
            self._send(have)
        for item in plan:
            if isinstance(item, EntryRange):
                self.outbox.append(item)
            else:
                self._send(item)
        self._after_done(session, now)

    def on_reconciliation(self, message: ReconciliationMessage, now: int) -> None:
        """A message of set reconciliation."""
        if self._reconciling.is_passed_over(message):
            return
        session = self._session_of(message.session_id, now)
        if session is None:
            self._reconciling.unknown(message)
            return
        if session.mode != MODE_SET_RECONCILIATION:
            error = session_errors.UnexpectedMessageError("log height mode does not have this message")
            self._peer.events.ignored(self.remote, error, message.session_id)
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
        self._send(session.all_planned(live_mode=self._peer.settings.offers_live_mode))
        self._after_done(session, now)

    def on_sync_done(self, message: SyncDone, now: int) -> None:
        """The remote has sent all it had, leaves live mode, or refuses the session."""
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

    def tick(self, now: int) -> None:
        """Time has passed."""
        if self.failed is not None:
            return
        settings = self._peer.settings
        if self.outbox.sent_count != self._sent_count or not self.outbox:
            self._sent_count, self._moved_at = self.outbox.sent_count, now
        stalled = now - self._moved_at >= settings.stall_timeout_ms
        for session in self.sessions:
            if self.outbox and not stalled:
                session.last_activity = now
            idle_ms = now - session.last_activity
            if session.state is not SessionState.LIVE and idle_ms >= settings.session_timeout_ms:
                self._fail(session, session_errors.SessionTimeoutError(f"nothing for {idle_ms} ms"), now)
        if settings.auto_sync:
            for session in self.sessions:
                if session.state is SessionState.LIVE and self._auto.heals(session, now):
                    self.stop_live(session, now)
        if self._auto.is_due(now):
            self.sync_common(now)

    def close(self, error: CulmError) -> None:
        """The link is down or of no use any more: its sessions have failed."""
        for session in self.sessions:
            self._fail(session, error, session.last_activity)
        self.outbox.clear()

    # Sessions.

    def _session_of(self, session_id: int, now: int) -> Session | None:
        session = self.sessions.get(session_id)
        if session is None:
            error = session_errors.UnknownSessionError(f"there is no session {session_id}")
            self._peer.events.ignored(self.remote, error, session_id)
        else:
            session.last_activity = now
        return session

    def _have(self, session_id: int, schema_ids: Sequence[str]) -> Have:
        """Raises `HaveTooLargeError`."""
        most = have_codec.room(self._peer.settings.max_message_bytes)
        held: tuple[LogHeight, ...] = tuple(self._peer.store.log_heights(schema_ids))
        if have_codec.size_within(held, most) is None:
            raise _too_large(schema_ids)
        return Have(session_id, held)

    def _begin(self, session: Session) -> None:
        self.sessions.add(session)
        self._reconciling.begun(session.session_id)
        for schema in session.schema_ids:
            self._peer.sessions_by_schema.setdefault(schema, []).append(session)
        self._peer.events.add(
            events.SessionStarted(
                self.remote, session.session_id, session.mode, session.schema_ids, session.local
            )
        )

    def _end(self, session: Session, now: int) -> None:
        self.sessions.remove(session, now, self.outbox.queued_count)
        self._reconciling.ended(session.session_id)
        by_schema = self._peer.sessions_by_schema
        for schema in session.schema_ids:
            by_schema[schema].remove(session)
            if not by_schema[schema]:
                del by_schema[schema]

    def _give_up(self, session: Session, error: CulmError, now: int) -> None:
        """End a session that cannot go on, and tell the remote."""
        self._send(SyncDone(session.session_id, False))
        if session.mid_batch:
            self._reconciling.pass_over(session.session_id)
        self._fail(session, error, now)

    def _fail(self, session: Session, error: CulmError, now: int) -> None:
        if session.local and not isinstance(error, session_errors.NotAnnouncedError):
            if session.state is SessionState.PENDING and isinstance(
                error, session_errors.SessionTimeoutError
            ):
                self._auto.unanswered(session.mode)
            elif session.mode == MODE_SET_RECONCILIATION and not session.reconciled:
                self._auto.give_up(session.mode)
        session.state = SessionState.CLOSED
        session.reconciliation = None
        self._end(session, now)
        self._peer.events.counts[error.code] += 1
        self._peer.events.add(events.SessionFailed(self.remote, session.session_id, error.code, str(error)))
        self._auto.failed(now)

    def _after_done(self, session: Session, now: int) -> None:
        if session.state is SessionState.LIVE and session.leaving:
            self.stop_live(session, now)
            self.sync_common(now)
            return
        if session.state is SessionState.LIVE:
            self._auto.went_live()
            self._peer.events.add(events.Live(self.remote, session.session_id, session.schema_ids))
            self.outbox.extend(session.take_unsent())
        self._finish_if_closed(session, now)

    def _finish_if_closed(self, session: Session, now: int) -> None:
        if session.state is SessionState.CLOSED:
            self._end(session, now)
            self._peer.events.add(events.SessionDone(self.remote, session.session_id, session.schema_ids))
            self._auto.finished(now)


def _too_large(schema_ids: Sequence[str]) -> session_errors.HaveTooLargeError:
    return session_errors.HaveTooLargeError(
        f"the heights of all logs of {', '.join(schema_ids)} do not fit one message: "
        "speak set reconciliation on both sides, or allow larger messages"
    )
