"""Sessions with one remote from their beginning to their end."""

from culm_models.errors import CulmError
from culm_models.p2panda import errors as session_errors
from culm_models.p2panda import events
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.reconciliation.reconciling import Reconciling
from culm_models.p2panda.sessions.auto_sync import AutoSync
from culm_models.p2panda.sessions.outbox import QueuedMessage, SendQueue
from culm_models.p2panda.sessions.session import Session, SessionState
from culm_models.p2panda.sessions.table import PeerState, SessionTable
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import MODE_SET_RECONCILIATION, Have, Message, SyncDone


class SessionLifecycle:
    """Begins and ends the sessions of one link; updates the peer's state, its events and `auto`."""

    def __init__(
        self,
        peer: PeerState,
        remote: bytes,
        auto: AutoSync,
        outbox: SendQueue,
        reconciling: Reconciling,
        now: int,
    ) -> None:
        self.sessions = SessionTable(peer.peer_id, remote, peer.settings, now)
        self._peer = peer
        self._remote = remote
        self._auto = auto
        self._outbox = outbox
        self._reconciling = reconciling
        # Number of items that had left the queue at the last check, and the time when that number last
        # changed.
        self._sent_count = 0
        self._moved_at = now
        peer.tables[remote] = self.sessions

    def check_capacity(self) -> None:
        """Raise `TooManySessionsError` if there is no capacity for another session."""
        self.sessions.check_capacity(self._outbox.sent_count)
        self._peer.check_share(self._remote)

    def begin(self, session: Session) -> None:
        """Register a session that was agreed or requested."""
        self.sessions.add(session)
        self._reconciling.begun(session.session_id)
        for schema in session.schema_ids:
            self._peer.sessions_by_schema.setdefault(schema, []).append(session)
        self._peer.events.add(
            events.SessionStarted(
                self._remote, session.session_id, session.mode, session.schema_ids, session.local
            )
        )

    def end(self, session: Session, now: int) -> None:
        """Remove a session, whatever its outcome."""
        self.sessions.remove(session, now, self._outbox.queued_count)
        self._reconciling.ended(session.session_id)
        by_schema = self._peer.sessions_by_schema
        for schema in session.schema_ids:
            by_schema[schema].remove(session)
            if not by_schema[schema]:
                del by_schema[schema]

    def tick(self, now: int, *, is_busy: bool) -> None:
        """Advance time: sessions whose remote is silent fail, and live sessions with gaps are left."""
        settings = self._peer.settings
        if self._outbox.sent_count != self._sent_count or not self._outbox:
            self._sent_count, self._moved_at = self._outbox.sent_count, now
        stalled = now - self._moved_at >= settings.stall_timeout_ms
        # Checked before `SyncDone` of a session is queued.
        waits = bool(self._outbox)
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

    def _time_out(self, session: Session, idle_ms: int, now: int) -> None:
        error = session_errors.SessionTimeoutError(f"nothing for {idle_ms} ms")
        if self._peer.settings.compat == "spec":
            # The remote may be in live mode by now; its entries would be ignored forever.
            self.give_up(session, error, now)
        else:
            # A p2panda node reuses ids at once, so that this would end another session.
            self.fail(session, error, now)

    def give_up(self, session: Session, error: CulmError, now: int) -> None:
        """End a session that cannot continue, and inform the remote."""
        self.send(SyncDone(session.session_id, False))
        if session.mid_batch:
            self._reconciling.ignore(session.session_id)
        self.fail(session, error, now)

    def fail(self, session: Session, error: CulmError, now: int) -> None:
        """End a session that cannot continue."""
        if session.local and not isinstance(error, session_errors.NotAnnouncedError):
            if session.state is SessionState.PENDING and isinstance(
                error, session_errors.SessionTimeoutError
            ):
                self._auto.unanswered(session.mode)
            elif session.mode == MODE_SET_RECONCILIATION and not session.reconciled:
                self._auto.give_up(session.mode)
        session.state = SessionState.CLOSED
        session.reconciliation = session.rest = None
        self.end(session, now)
        self._peer.events.counts[error.code] += 1
        self._peer.events.add(events.SessionFailed(self._remote, session.session_id, error.code, str(error)))
        self._auto.failed(now)

    def stop_live(self, session: Session, now: int) -> None:
        """Leave live mode."""
        assert session.state is SessionState.LIVE, "only a live session can be left"
        self.send(SyncDone(session.session_id, False))
        session.state = SessionState.CLOSED
        self.finish_if_closed(session, now)

    def go_live_or_finish(self, session: Session, now: int) -> None:
        """Continue in live mode if both sides have agreed to it, or end the session.

        Called after one side has sent all it had.
        """
        if session.state is SessionState.LIVE:
            self._auto.went_live()
            self._peer.events.add(events.Live(self._remote, session.session_id, session.schema_ids))
            self._outbox.extend(session.take_unsent())
        self.finish_if_closed(session, now)

    def finish_if_closed(self, session: Session, now: int) -> None:
        """End a session if both sides have sent everything."""
        if session.state is SessionState.CLOSED:
            self.end(session, now)
            self._peer.events.add(events.SessionDone(self._remote, session.session_id, session.schema_ids))
            self._auto.finished(now)

    def send(self, item: Message | EntryRange) -> None:
        """Queue a message, or a range that stands for entries."""
        if isinstance(item, EntryRange):
            self._outbox.append(item)
            return
        follows = item.session_id if isinstance(item, Have | SyncDone) else None
        self._outbox.append(QueuedMessage(codec.encode(item, self._peer.settings.compat), follows))
