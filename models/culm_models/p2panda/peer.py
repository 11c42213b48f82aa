"""The whole protocol of one local peer with many remotes, without I/O (specification "replication").

Bytes and notifications go in; messages wait in `outgoing` and events in `take_events`. Time is an argument,
in milliseconds. `receive` does everything at once. A driver that checks entries in threads and stores them
elsewhere takes the same steps one by one:

    decode       bytes -> messages
    apply        every message except an entry
    apply_entry  a checked entry; True if it is staged and has to be stored
    stored       it is durable now and goes on to the other remotes
    discard      it could not be stored

Nothing that a remote sends makes these methods raise, except `decode`; the driver then closes the link.
"""

from collections import Counter
from collections.abc import Collection, Sequence, Set
from functools import partial
from typing import Final

from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.errors import BacklinkUnknownError, ForkError, SkiplinkUnknownError
from culm_models.errors import CulmError
from culm_models.p2panda import errors as session_errors
from culm_models.p2panda import events
from culm_models.p2panda.events import EventQueue, PeerEvent
from culm_models.p2panda.ingest import BLAMELESS, Admit, Ingest, admit_everything
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions import announcement
from culm_models.p2panda.sessions.link import Link
from culm_models.p2panda.sessions.outbox import SendQueue, WithheldLogs
from culm_models.p2panda.sessions.session import Session
from culm_models.p2panda.sessions.table import PeerState
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Announce, EntryMessage, Have, Message, SyncDone, SyncRequest
from culm_models.reconciliation.messages import ReconciliationMessage

_SHOWN_LENGTH: Final = 300


class Peer:
    """One local peer.

    `peer_id` orders peers when both request a session at once, so all sides must use the same ids.
    """

    def __init__(
        self,
        peer_id: bytes,
        store: LogStore,
        settings: PeerSettings | None = None,
        *,
        random_seed: int = 0,
        admit: Admit = admit_everything,
    ) -> None:
        self.peer_id = peer_id
        self.store = store
        self.settings = settings or PeerSettings()
        self._events = EventQueue(self.settings.max_events)
        self._state = PeerState(peer_id, store, self.settings, self._events, random_seed)
        self.ingest = Ingest(store, admit)
        """The check in front of the store, for code that adds entries that come from no remote."""
        self._links: dict[bytes, Link] = {}

    # State.

    @property
    def announcement(self) -> Announce | None:
        """Our latest announcement; None before the first."""
        return self._state.announcement

    @property
    def remotes(self) -> tuple[bytes, ...]:
        """The connected remotes."""
        return tuple(self._links)

    @property
    def counts(self) -> Counter[str]:
        """Number of occurrences of each event kind, and of each code of ignored, refused or failed items."""
        return self._events.counts

    @property
    def staged_count(self) -> int:
        """Number of entries that are accepted but not stored yet."""
        return self.ingest.staged_count

    def remote_announcement(self, remote: bytes) -> Announce | None:
        """Return the latest announcement of a connected remote."""
        link = self._links.get(remote)
        return link.announcements.theirs if link is not None else None

    def sessions(self, remote: bytes) -> tuple[Session, ...]:
        """Return the sessions with a remote, oldest first."""
        link = self._links.get(remote)
        return tuple(link.sessions) if link is not None else ()

    # Local requests.

    def announce(self, schema_ids: Sequence[str], now: int) -> None:
        """Replace our announcement and send it to every remote. Raises `SchemaIdError`."""
        former = self._state.announcement
        latest = announcement.succeed(former, schema_ids, now, self.settings.timestamp_unit_ms)
        self._state.announcement = latest
        dropped = frozenset(former.schema_ids if former is not None else ()).difference(latest.schema_ids)
        for link in self._links.values():
            link.announce()
            link.unannounce(dropped, now)
            if link.failed is None:
                link.requests.answer_waiting(now)
            link.sync_common(now)

    def connect(self, remote: bytes, now: int, *, dialled: bool, allowed: Set[str] | None = None) -> None:
        """Note that a link is up; `dialled` if this side opened it. Replaces a previous link to the remote.

        `allowed`: the schemas that the remote may replicate and that we announce to it; None for all of them.
        """
        self.disconnect(remote, now)
        link = self._links[remote] = Link(self._state, remote, dialled=dialled, now=now, allowed=allowed)
        link.announce()

    def disconnect(self, remote: bytes, now: int) -> None:
        """Note that the link to a remote is down: its sessions fail, its queued messages are dropped."""
        link = self._links.pop(remote, None)
        if link is not None:
            link.close(session_errors.DisconnectedError("the link went down"))
            del self._state.tables[remote]

    def sync(self, remote: bytes, mode: int, schema_ids: Sequence[str], now: int) -> int | None:
        """Request a session; returns its id, or None with an `Ignored` event that gives the reason."""
        link = self._links.get(remote)
        if link is None:
            self._events.ignored(remote, session_errors.NotConnectedError("there is no link to this remote"))
            return None
        return link.sync(mode, schema_ids, now)

    def stop_live(self, remote: bytes, session_id: int, now: int) -> None:
        """Leave a session's live mode; has no effect if the session is not live."""
        link = self._links.get(remote)
        if link is not None:
            link.stop_live(session_id, now)

    def publish(self, entry_bytes: bytes, operation_bytes: bytes, now: int) -> CheckedOperation:
        """Store a locally created entry and send it to the remotes.

        Raises the error that forbids it; `LogBusyError` if entries of the log are staged.
        """
        checked = check_entry(entry_bytes, operation_bytes)
        self.ingest.check_idle(checked.log)
        if self.ingest.stage(checked):
            self.store.append([checked])
            self.stored([checked], None, now)
        return checked

    def tick(self, now: int, busy: Collection[bytes] = ()) -> None:
        """Advance time: sessions time out, and new ones start if that is up to us.

        Messages of `busy` remotes are waiting to be applied, so these remotes do not count as silent.
        """
        for remote, link in self._links.items():
            link.tick(now, is_busy=remote in busy)

    # Incoming.

    def receive(self, remote: bytes, data: bytes, now: int) -> None:
        """Process bytes from a remote: decode, check, apply, and append entries to the store.

        Without a link, or on one that has failed, the bytes are ignored with an `Ignored` event.
        """
        link = self._links.get(remote)
        if link is None or link.failed is not None:
            reason = "there is no link to the remote" if link is None else "the link to the remote has failed"
            self._events.ignored(remote, session_errors.NotConnectedError(reason))
            return
        try:
            messages = self.decode(remote, data)
        except CulmError:
            return
        accepted: list[CheckedOperation] = []
        for message in messages:
            if type(message) is EntryMessage:
                self._receive_entry(link, message, accepted, now)
                continue
            self._keep(accepted, remote, now)
            self.apply(remote, message, now)
        self._keep(accepted, remote, now)
        if link.stream.error is not None:
            self._fail_link(link, link.stream.error)

    def _receive_entry(
        self, link: Link, message: EntryMessage, accepted: list[CheckedOperation], now: int
    ) -> None:
        checked: CheckedOperation | CulmError
        try:
            checked = check_entry(message.entry, message.operation)
        except CulmError as error:
            checked = error
        if self.apply_entry(link.remote, message, checked, now):
            assert not isinstance(checked, CulmError), "a refused entry is never staged"
            accepted.append(checked)

    def _keep(self, accepted: list[CheckedOperation], remote: bytes, now: int) -> None:
        if accepted:
            self.store.append(accepted)
            self.stored(accepted, remote, now)
            accepted.clear()

    def decode(self, remote: bytes, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete.

        Raises the error that makes the stream unreadable, now and at every further call before a reconnect.
        Messages that came before the error are returned first.
        """
        link = self._links.get(remote)
        if link is None:
            return []
        try:
            return link.stream.feed(data)
        except CulmError as error:
            if link.failed is None:
                self._fail_link(link, error)
            raise

    def stream(self, remote: bytes) -> MessageStream | None:
        """Return a remote's stream, for a driver that feeds it in a thread because messages are large.

        Only one task may use it at a time. A later `decode` raises the error that made it unreadable.
        """
        link = self._links.get(remote)
        return link.stream if link is not None else None

    def apply(self, remote: bytes, message: Message, now: int) -> None:
        """Act on a remote's message that is not an entry."""
        assert not isinstance(message, EntryMessage), "entries go through `apply_entry`"
        link = self._links.get(remote)
        if link is None or link.failed is not None:
            return
        match message:
            case Announce():
                link.on_announce(message, now)
            case SyncRequest():
                link.requests.receive(message, now)
            case Have():
                link.on_have(message, now)
            case SyncDone():
                link.on_sync_done(message, now)
            case ReconciliationMessage():
                link.on_reconciliation(message, now)

    def ignore_request(self, remote: bytes, request: SyncRequest) -> None:
        """Ignore the opening of set reconciliation for a request that the driver does not apply."""
        link = self._links.get(remote)
        if link is not None:
            link.requests.ignore(request)

    def apply_entry(
        self,
        remote: bytes,
        message: EntryMessage,
        checked: CheckedOperation | CulmError,
        now: int,
    ) -> bool:
        """Act on an entry that was checked, or on the error that refused it.

        Returns True if it is staged; the caller stores it and calls `stored`, or else `discard`.
        """
        link = self._links.get(remote)
        session_id = message.session_id
        session = link.sessions.get(session_id) if link is not None else None
        if session is None:
            error = session_errors.UnknownSessionError(f"there is no session {session_id}")
            self._events.ignored(remote, error, session_id)
            return False
        session.last_activity = now
        if isinstance(checked, CulmError):
            session.note_unreadable(message.entry, checked)
            self._reject(remote, message, checked, None)
            return False
        try:
            fresh = self.ingest.stage(checked, session.schemas, remote)
        except CulmError as refusal:
            session.note_refused(checked.log, refusal)
            blameless = isinstance(refusal, BLAMELESS)
            if blameless:
                session.note_contradictory(checked.log)
            elif isinstance(refusal, BacklinkUnknownError | SkiplinkUnknownError):
                # The entry that it follows may be of the other branch.
                blameless = session.is_contradictory(checked.log)
            self._reject(remote, message, refusal, checked, blameless=blameless)
            return False
        entry = checked.entry
        if session.has_unsent or not session.planned:
            session.note_received(entry.public_key, entry.log_id, entry.seq_num)
        self._events.shown(remote, entry.public_key, entry.log_id, entry.seq_num)
        if not fresh:
            self._events.add(events.Duplicate(remote, session_id, checked))
            return False
        self._events.add(events.EntryAccepted(remote, session_id, checked))
        return True

    def _reject(
        self,
        remote: bytes,
        message: EntryMessage,
        error: CulmError,
        checked: CheckedOperation | None,
        *,
        blameless: bool = False,
    ) -> None:
        held_hash = None
        if isinstance(error, ForkError) and checked is not None:
            held_hash = self.ingest.hash_at(*checked.log, checked.entry.seq_num)
        self._events.counts[error.code] += 1
        self._events.add(
            events.EntryRejected(
                remote,
                message.session_id,
                error.code,
                str(error)[:_SHOWN_LENGTH],
                message.entry,
                message.operation,
                held_hash,
                blameless,
            )
        )

    def stored(self, entries: Sequence[SoundEntry], source: bytes | None, now: int) -> None:
        """Mark entries as stored and send them to all remotes concerned except `source`."""
        self.ingest.settle(entries)
        by_schema = self._state.sessions_by_schema
        for checked in entries:
            for session in by_schema.get(checked.schema_id, ()):
                if session.remote != source:
                    self._links[session.remote].deliver(session, checked)

    def settled(self, entries: Sequence[SoundEntry]) -> None:
        """Mark entries as stored that already counted as held. All plans include them; nothing is sent."""
        self.ingest.settle(entries)

    def discard(self, entries: Sequence[SoundEntry], now: int) -> None:
        """Drop entries that will not be stored, with all entries staged on top of them."""
        self.ingest.discard(entries)
        for checked in entries:
            # Remotes meanwhile continued with entries that they could not know to be of another branch.
            for session in self._state.sessions_by_schema.get(checked.schema_id, ()):
                session.note_contradictory(checked.log)

    def _fail_link(self, link: Link, error: CulmError) -> None:
        link.failed = error
        self._events.counts[error.code] += 1
        self._events.add(events.LinkFailed(link.remote, error.code, str(error)[:_SHOWN_LENGTH]))
        link.close(error)

    # Outgoing.

    def outgoing(self, remote: bytes) -> SendQueue:
        """Return the queue of messages for a remote, in order; the driver takes items off the front.

        A range stands for its entries, each to be written as an `EntryMessage` in its place. If the outbox
        `is_partial`, the driver asks again after it has served other remotes.
        """
        link = self._links.get(remote)
        if link is None:
            return SendQueue(self.settings.max_outgoing, self.settings.max_outgoing_bytes)
        link.refill()
        return link.outbox

    def withheld(self, remote: bytes) -> WithheldLogs | None:
        """Return the logs of which a connected remote is not sent everything.

        Code that writes a range asks this for the part that may be sent.
        """
        link = self._links.get(remote)
        return link.withheld if link is not None else None

    def take_outgoing(self, remote: bytes) -> bytes:
        """Return the encoded messages that wait for a remote, with ranges read from the store."""
        parts: list[bytes] = []
        withheld = self.withheld(remote)
        while (outbox := self.outgoing(remote)) or outbox.is_partial:
            if not outbox:
                continue
            item = outbox.popleft()
            if isinstance(item, EntryRange):
                assert withheld is not None, "only a link has something to send"
                encode = partial(codec.encode_entry_message, item.session_id)
                pairs = self.store.entries(
                    item.public_key, item.log_id, item.first_seq_num, item.last_seq_num
                )
                parts.extend(encode(*pair) for pair in withheld.sendable(item, pairs))
            else:
                parts.append(item.data)
        return b"".join(parts)

    def take_events(self) -> list[PeerEvent]:
        """Return the events since the last call, in order."""
        return self._events.take()
