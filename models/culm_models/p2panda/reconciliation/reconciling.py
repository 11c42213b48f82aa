"""Set reconciliation on one link: assigns messages to sessions and queues the answers.

A request is sent together with its opening. If a request is ignored, its opening is ignored as well, even if
its id names a running session. Messages that still arrive for an ended session are ignored, too.
"""

from collections.abc import Sequence
from typing import Final

from culm_models.p2panda import events
from culm_models.p2panda.errors import OutOfTurnError, UnreadError
from culm_models.p2panda.reconciliation.set_reconciliation import (
    LiftChoice,
    SetReconciliation,
    choose,
    first_named,
)
from culm_models.p2panda.sessions.outbox import QueuedMessage, SendQueue
from culm_models.p2panda.sessions.session import Session
from culm_models.p2panda.sessions.table import PeerState
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Offer
from culm_models.p2panda.wire.reconciliation_codec import encode_many
from culm_models.reconciliation.messages import EmptySet, ReconciliationMessage, Terminal

# The machine queries its set once for all messages that it receives together.
_AT_ONCE: Final = 8_192
_MESSAGES_AN_ITEM: Final = 1_024
_MAX_IGNORED: Final = 64


class Reconciling:
    """The sessions of mode 1 with one remote, from their opening until `SyncDone` is due."""

    __slots__ = ("_ignored", "_outbox", "_peer", "_remote", "_stream")

    def __init__(self, peer: PeerState, remote: bytes, outbox: SendQueue, stream: MessageStream) -> None:
        self._peer = peer
        self._remote = remote
        self._outbox = outbox
        self._stream = stream
        # Session ids in order of arrival; beyond the limit the oldest is no longer ignored.
        self._ignored: dict[int, None] = {}

    def ignore(self, session_id: int) -> None:
        """Ignore messages under this id up to the end of a batch."""
        self._ignored.pop(session_id, None)
        self._ignored[session_id] = None
        if len(self._ignored) > _MAX_IGNORED:
            del self._ignored[next(iter(self._ignored))]

    def is_ignored(self, message: ReconciliationMessage) -> bool:
        """Whether this message is to be ignored silently."""
        if message.session_id not in self._ignored:
            return False
        if isinstance(message, Terminal | EmptySet):
            del self._ignored[message.session_id]
        return True

    def ignore_batch(self, message: ReconciliationMessage) -> None:
        """Ignore the rest of a batch whose id belongs to no session of mode 1."""
        self._stream.reconciliation_bytes.pop(message.session_id, None)
        if not isinstance(message, Terminal | EmptySet):
            self.ignore(message.session_id)

    def begun(self, session_id: int) -> None:
        """Stop ignoring messages under this id, because a session has begun under it."""
        self._ignored.pop(session_id, None)

    def ended(self, session_id: int) -> None:
        """Forget the counters of a session that has ended."""
        self._stream.reconciliation_bytes.pop(session_id, None)

    def open(self, session: Session, offer: Offer | None) -> None:
        """Send our opening, right after the request."""
        self._send(session, self._look(session, self._choose(offer), offer).start())
        session.answered_at = self._outbox.queued_count

    def take(self, session: Session, message: ReconciliationMessage, offer: Offer | None) -> bool:
        """Process a message of the remote's batch; returns True once reconciliation has ended.

        Raises `ReconciliationError` or `SessionError` if the remote breaks the rules.
        """
        ends = isinstance(message, Terminal | EmptySet)
        session.mid_batch = not ends
        # The remote may begin to answer a batch that is still in transit, but cannot have ended its answer.
        if ends and self._outbox.sent_count < session.answered_at:
            raise OutOfTurnError("the end of a batch before the one that it answers is sent")
        session.inbox.append(message)
        if not ends and len(session.inbox) < _AT_ONCE:
            return False
        messages, session.inbox = session.inbox, []
        work = session.reconciliation
        if work is None:
            # The requesting side has chosen the lift. If it sends no fingerprint, we need none either.
            choice = first_named(messages, self._peer.settings) or self._choose(offer)
            work = self._look(session, choice, offer)
        answer = work.receive(messages)
        self._send(session, answer.messages)
        if self._outbox.waiting_bytes > self._peer.settings.max_unread_bytes:
            raise UnreadError(f"{self._outbox.waiting_bytes} bytes wait for the remote")
        if ends:
            session.answered_at = self._outbox.queued_count
        self._outbox.extend(answer.entries)
        for height in answer.heights:
            self._peer.events.shown(self._remote, *height)
        return work.done

    def finish(self, session: Session) -> None:
        """Send the entries that were never mentioned, some perhaps later in slices.

        Called when both sides know what the other is missing.
        """
        work = session.reconciliation
        assert work is not None and work.done, "it has ended"
        answer = work.finish(self._peer.settings.max_equal_heights)
        self._outbox.extend(answer.entries)
        session.rest = answer.rest
        if session.rest is None:
            self._send(session, work.last_words())
        if answer.heights:
            self._peer.events.add(events.Heights(self._remote, tuple(answer.heights)))
        self._peer.events.add(
            events.Reconciled(
                self._remote,
                session.session_id,
                work.rounds,
                work.messages_in,
                work.messages_out,
                self._stream.reconciliation_bytes.pop(session.session_id, 0),
                session.bytes_out,
                work.differing,
            )
        )
        session.reconciled = True
        if session.rest is None:
            session.reconciliation = None

    def end_rest(self, session: Session) -> None:
        """Send the last messages; all entries that were never mentioned are queued."""
        if session.reconciliation is not None:
            self._send(session, session.reconciliation.last_words())
            session.reconciliation = None

    def _choose(self, offer: Offer | None) -> LiftChoice:
        lift = choose(self._peer.settings, offer)
        return LiftChoice(lift, self._peer.next_salt(lift.salt_bytes))

    def _look(self, session: Session, choice: LiftChoice, offer: Offer | None) -> SetReconciliation:
        work = SetReconciliation(
            self._peer.store, session.session_id, session.schema_ids, self._peer.settings, choice, offer
        )
        session.reconcile(work)
        return work

    def _send(self, session: Session, messages: Sequence[ReconciliationMessage]) -> None:
        assert session.reconciliation is not None, "only a reconciling session sends messages"
        for first in range(0, len(messages), _MESSAGES_AN_ITEM):
            data = encode_many(messages[first : first + _MESSAGES_AN_ITEM], session.reconciliation.form)
            session.bytes_out += len(data)
            self._outbox.append(QueuedMessage(data))
