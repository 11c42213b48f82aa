"""Our side of what goes on with one remote: sessions that begin and end, and all that is sent in them."""

from collections.abc import Sequence, Set

from culm_models.errors import CulmError
from culm_models.p2panda import (
    announcement,
    codec,
    events,
    have_codec,
    schema_id,
    session_errors,
    wishes,
)
from culm_models.p2panda.auto_sync import AutoSync
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.messages import (
    MODE_SET_RECONCILIATION,
    Announce,
    Have,
    Message,
    SyncDone,
    SyncRequest,
)
from culm_models.p2panda.offers import Offer
from culm_models.p2panda.outbox import Outbox
from culm_models.p2panda.peer_state import PeerState
from culm_models.p2panda.reconciling import Reconciling
from culm_models.p2panda.session import Session, SessionState
from culm_models.p2panda.session_errors import SessionError
from culm_models.p2panda.session_table import SessionTable
from culm_models.p2panda.stream import MessageStream


class Conversation:
    """What is said to one remote, and the sessions with it from their beginning to their end."""

    def __init__(
        self,
        peer: PeerState,
        remote: bytes,
        *,
        dialled: bool,
        now: int,
        allowed: Set[str] | None = None,
    ) -> None:
        """`allowed`: the schemas that the remote may replicate, None for all of them."""
        self.remote = remote
        self.dialled = dialled
        self.ours: Announce | None = None
        """Our latest announcement, as far as the remote may know of it."""
        self.stream = MessageStream(peer.settings.max_message_bytes, peer.settings.max_message_items)
        self.failed: CulmError | None = None
        self.announcement: Announce | None = None
        self.offer: Offer | None = None
        self.sessions = SessionTable(peer.peer_id, remote, peer.settings, now)
        self.outbox = Outbox()
        self._peer = peer
        self._allowed = allowed
        self._auto = AutoSync(peer.settings, peer.rng, now)
        self._reconciling = Reconciling(peer, remote, self.outbox, self.stream)
        # How many items had left the queue when it was last looked at, and when that was less.
        self._sent_count = 0
        self._moved_at = now
        peer.tables[remote] = self.sessions

    # What goes out.

    def announce(self) -> None:
        """Tell the remote our latest announcement."""
        latest = self._peer.announcement
        if latest is None:
            return
        former, self.ours = self.ours, announcement.within(latest, self._allowed)
        # What is no concern of a restricted remote does not show by an announcement anew either.
        is_news = self._allowed is None or former is None or former.schema_ids != self.ours.schema_ids
        if is_news and self.failed is None:
            self._send(announcement.with_offer(self.ours, self._peer.settings.offer))

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
        that, and else several about fewer schemas, of which the first one's id is returned. For a schema
        that does not fit by itself set reconciliation is tried with a remote that offers nothing, too.
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
            requests = wishes.fitting(self._peer, self.remote, self._auto, self.offer, mode, wanted)
        except SessionError as error:
            self._peer.events.ignored(self.remote, error)
            return None
        fits = len(self.sessions) + len(requests) <= self._peer.settings.max_sessions_per_peer
        requests.sort(key=lambda request: self._auto.turn(request[1]))
        ids = [self._ask(*request, now, wants_live=fits) for request in requests]
        return next((session_id for session_id in ids if session_id is not None), None)

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
        return announcement.common(self.ours, self.announcement)

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
        if self.outbox:
            return
        for session in self.sessions:
            if session.rest is not None:
                self._go_on(session)
            elif session.state is SessionState.LIVE and session.has_unsent:
                self.outbox.extend(session.take_unsent())
        self.outbox.is_partial = any(session.rest is not None for session in self.sessions)

    def _go_on(self, session: Session) -> None:
        """Queue a slice of the rest; behind the last one comes that this was all."""
        assert session.rest is not None, "it has a rest"
        parts = next(session.rest, None)
        if parts is not None:
            self.outbox.extend(parts)
            return
        session.rest = None
        self._reconciling.end_rest(session)
        self._say_done(session, session.last_activity)

    def _say_done(self, session: Session, now: int) -> None:
        """Say so where all that the remote lacks is queued."""
        if session.rest is None:
            self._send(session.all_planned(live_mode=self._peer.settings.offers_live_mode))
            self._after_done(session, now)

    def _send(self, message: Message) -> None:
        self.outbox.append(codec.encode(message, self._peer.settings.compat))

    def tick(self, now: int, *, is_busy: bool = False) -> None:
        """Time has passed; `is_busy`: what the remote has said waits to be applied."""
        if self.failed is not None:
            return
        settings = self._peer.settings
        if self.outbox.sent_count != self._sent_count or not self.outbox:
            self._sent_count, self._moved_at = self.outbox.sent_count, now
        stalled = now - self._moved_at >= settings.stall_timeout_ms
        # Before anything is said about the end of a session.
        waits = bool(self.outbox)
        for session in self.sessions:
            if is_busy or ((waits or session.rest is not None) and not stalled):
                session.last_activity = now
            idle_ms = now - session.last_activity
            if session.state is not SessionState.LIVE and idle_ms >= settings.session_timeout_ms:
                self._time_out(session, idle_ms, now)
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

    def _have(self, session_id: int, schema_ids: Sequence[str]) -> Have:
        """Raises `HaveTooLargeError`."""
        most = have_codec.room(self._peer.settings.max_message_bytes)
        held = have_codec.within(self._peer.store.log_heights(schema_ids), most)
        if held is None:
            raise wishes.too_large(schema_ids)
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

    def _time_out(self, session: Session, idle_ms: int, now: int) -> None:
        error = session_errors.SessionTimeoutError(f"nothing for {idle_ms} ms")
        if self._peer.settings.compat == "spec":
            # The remote may be in live mode by now: what it says there would be passed over for ever.
            self._give_up(session, error, now)
        else:
            # A node uses ids again at once, so that this would end another session.
            self._fail(session, error, now)

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
        session.reconciliation = session.rest = None
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
