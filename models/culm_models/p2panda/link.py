"""One remote of a peer while a link to it is up: its announcement, its sessions, what goes out to it."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from culm_models.errors import CulmError
from culm_models.p2panda import announcement, codec, events, have_codec, schema_id, session_errors
from culm_models.p2panda.announcement import AnnouncementError
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.event_queue import EventQueue
from culm_models.p2panda.messages import Announce, Have, LogHeight, Message, SyncDone, SyncRequest
from culm_models.p2panda.offers import Offer
from culm_models.p2panda.outbox import Outbox
from culm_models.p2panda.ranges import EntryRange
from culm_models.p2panda.session import Session, SessionState
from culm_models.p2panda.session_errors import SessionError
from culm_models.p2panda.session_table import SessionTable
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.stream import MessageStream

_MAX_HEAL_DOUBLINGS: Final = 8


@dataclass(slots=True)
class PeerState:
    """What the links of one peer share."""

    peer_id: bytes
    store: LogStore
    settings: PeerSettings
    events: EventQueue
    announcement: Announce | None = None
    sessions_by_schema: dict[str, list[Session]] = field(default_factory=dict)
    """Every session of every link, so that a new entry finds those that it concerns."""


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
        self._resync_at: int | None = None
        self._heals = 0
        self._heal_at = now

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
        """Ask for a session; returns its id, or None (and an `Ignored` event) where that cannot be."""
        wanted = schema_id.normalise(schema_ids)
        try:
            if self.failed is not None:
                raise session_errors.NotConnectedError("the link to the remote has failed")
            self.sessions.check_shape(mode, wanted)
            if self.announcement is not None and not set(wanted) <= set(self.announcement.schema_ids):
                raise session_errors.NotAnnouncedError("the remote does not announce all of these schemas")
            self.sessions.check_own(wanted)
            self.sessions.check_room(self.outbox.sent_count)
        except SessionError as error:
            self._peer.events.ignored(self.remote, error)
            return None
        session_id = self.sessions.next_id(now)
        self._begin(Session(self.remote, session_id, mode, wanted, local=True, now=now))
        self._send(SyncRequest(session_id, mode, wanted))
        return session_id

    def sync_common(self, now: int) -> None:
        """Ask for a session about what both announce and no session is about."""
        if not self.dialled or self.failed is not None or not self._peer.settings.auto_sync:
            return
        self._resync_at = None
        wanted = [
            schema
            for schema in announcement.common(self._peer.announcement, self.announcement)
            if not self.sessions.covers(schema)
        ]
        limit = self._peer.settings.max_schema_ids
        if wanted and self.sync(self._peer.settings.modes[0], wanted[:limit], now) is None:
            self._resync_at = now + self._peer.settings.sync_interval_ms

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
                self.sessions.check_room(self.outbox.sent_count)
        except SessionError as error:
            self._peer.events.ignored(self.remote, error, message.session_id)
            return
        for session in yielding:
            self._end(session, now)
        accepted = Session(
            self.remote, message.session_id, message.mode, message.schema_ids, local=False, now=now
        )
        self._begin(accepted)
        self._send(self._have(accepted))
        for session in yielding:
            if session.schema_ids != message.schema_ids:
                self.sync(session.mode, session.schema_ids, now)

    def on_have(self, message: Have, now: int) -> None:
        """The remote shows what it holds."""
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        settings = self._peer.settings
        try:
            plan = session.have_received(
                message.log_heights, self._peer.store, live_mode=settings.offers_live_mode
            )
        except session_errors.HaveRepeatedError as error:
            self._peer.events.ignored(self.remote, error, message.session_id)
            return
        self._peer.events.add(events.Heights(self.remote, message.log_heights))
        if session.local:
            self._send(self._have(session))
        for item in plan:
            if isinstance(item, EntryRange):
                self.outbox.append(item)
            else:
                self._send(item)
        self._after_done(session, now)

    def on_sync_done(self, message: SyncDone, now: int) -> None:
        """The remote has sent all it had, or leaves live mode."""
        session = self._session_of(message.session_id, now)
        if session is None:
            return
        was_live = session.state is SessionState.LIVE
        session.done_received(message.live_mode)
        if was_live:
            self._finish_if_closed(session, now)
        else:
            self._after_done(session, now)

    def on_other(self, session_id: int, now: int) -> None:
        """A message that log height mode does not have."""
        if self._session_of(session_id, now) is not None:
            error = session_errors.UnexpectedMessageError("log height mode does not have this message")
            self._peer.events.ignored(self.remote, error, session_id)

    def tick(self, now: int) -> None:
        """Time has passed."""
        if self.failed is not None:
            return
        settings = self._peer.settings
        for session in self.sessions:
            if self.outbox:
                session.last_activity = now
            idle_ms = now - session.last_activity
            if session.state is not SessionState.LIVE and idle_ms >= settings.session_timeout_ms:
                self._fail(session, session_errors.SessionTimeoutError(f"nothing for {idle_ms} ms"), now)
        if settings.auto_sync:
            self._heal(now)
        if self._resync_at is not None and now >= self._resync_at:
            self.sync_common(now)

    def _heal(self, now: int) -> None:
        """Leave a live session in which entries are missing, so that the next one begins with a new `Have`.

        Where that does not help, because the remote goes on to skip entries, it is tried ever more rarely.
        """
        for session in self.sessions:
            if session.has_gap and session.state is SessionState.LIVE and now >= self._heal_at:
                self._heal_at = now + (self._peer.settings.sync_interval_ms << self._heals)
                self._heals = min(self._heals + 1, _MAX_HEAL_DOUBLINGS)
                self.stop_live(session, now)

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

    def _have(self, session: Session) -> Have:
        held: tuple[LogHeight, ...] = tuple(self._peer.store.log_heights(session.schema_ids))
        shown = have_codec.prefix_that_fits(held, self._peer.settings.max_message_bytes)
        if len(shown) < len(held):
            self._peer.events.add(
                events.HaveShortened(self.remote, session.session_id, len(held), len(shown))
            )
        return Have(session.session_id, shown)

    def _begin(self, session: Session) -> None:
        self.sessions.add(session)
        for schema in session.schema_ids:
            self._peer.sessions_by_schema.setdefault(schema, []).append(session)
        self._peer.events.add(
            events.SessionStarted(
                self.remote, session.session_id, session.mode, session.schema_ids, session.local
            )
        )

    def _end(self, session: Session, now: int) -> None:
        self.sessions.remove(session, now, self.outbox.queued_count)
        by_schema = self._peer.sessions_by_schema
        for schema in session.schema_ids:
            by_schema[schema].remove(session)
            if not by_schema[schema]:
                del by_schema[schema]

    def _fail(self, session: Session, error: CulmError, now: int) -> None:
        session.state = SessionState.CLOSED
        self._end(session, now)
        self._peer.events.counts[error.code] += 1
        self._peer.events.add(events.SessionFailed(self.remote, session.session_id, error.code, str(error)))
        self._resync_at = now + self._peer.settings.sync_interval_ms

    def _after_done(self, session: Session, now: int) -> None:
        if session.state is SessionState.LIVE and session.leaving:
            self.stop_live(session, now)
            self.sync_common(now)
            return
        if session.state is SessionState.LIVE:
            self._peer.events.add(events.Live(self.remote, session.session_id, session.schema_ids))
            self.outbox.extend(session.take_unsent())
        self._finish_if_closed(session, now)

    def _finish_if_closed(self, session: Session, now: int) -> None:
        if session.state is SessionState.CLOSED:
            self._end(session, now)
            self._peer.events.add(events.SessionDone(self.remote, session.session_id, session.schema_ids))
            self._resync_at = now + self._peer.settings.sync_interval_ms
