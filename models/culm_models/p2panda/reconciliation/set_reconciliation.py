"""One side of a session of mode 1: the messages to send, and the entries that the remote is missing.

By the specification ("replication", 2.1 and 2.2), the published algorithm finds where the sync ranges differ.
The sequence numbers of the items then show which side is missing entries: the side with the lower one. So the
set of items never changes here. It holds the logs' heights at the start; entries that are stored meanwhile
are sent in live mode, or by the next session.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from culm_models import lifts
from culm_models.lifts import Lift, LiftError
from culm_models.p2panda.errors import SessionError
from culm_models.p2panda.reconciliation import ranges
from culm_models.p2panda.reconciliation.ranges import EntryRange, in_order, in_slices
from culm_models.p2panda.sessions.remote_heights import RemoteHeights
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.compact import ShortBounds
from culm_models.p2panda.wire.messages import LogHeight, Offer
from culm_models.p2panda.wire.reconciliation_codec import Form
from culm_models.reconciliation import Limits, OrderedSet, Reconciler, Span
from culm_models.reconciliation.messages import (
    EmptySet,
    Fingerprint,
    LowerBound,
    ReconciliationMessage,
    Terminal,
)

# Every fingerprint names its lift and carries its salt. The side that begins chooses; the other side adopts
# the choice from the first fingerprint that arrives, or refuses. No other message states the choice.


class LiftRefusedError(SessionError, code="p2panda.session.lift"):
    """The remote's fingerprints use a lift that is not accepted here."""


class LiftChangedError(SessionError, code="p2panda.session.lift_changed"):
    """A fingerprint uses another lift or salt than those before it."""


@dataclass(frozen=True, slots=True)
class LiftChoice:
    """A lift with the salt of this session, empty for a lift that takes none."""

    lift: Lift
    salt: bytes = b""

    def check(self, messages: Iterable[ReconciliationMessage]) -> None:
        """Raise `LiftChangedError` unless all fingerprints use this lift and salt."""
        prefix = self.lift.prefix(self.salt)
        size = len(prefix) + self.lift.value_bytes
        for message in messages:
            if type(message) is Fingerprint:
                data = message.fingerprint
                if len(data) != size or not data.startswith(prefix):
                    raise LiftChangedError(f"a fingerprint that is not of {self.lift.name} and its salt")


def choose(settings: PeerSettings, offer: Offer | None) -> Lift:
    """Return the lift for a session of ours: the preferred one, or the first that the remote accepts."""
    preferred = lifts.by_name(settings.lift)
    if offer is None or preferred.code in offer.lifts:
        return preferred
    for name in settings.lifts:
        if lifts.by_name(name).code in offer.lifts:
            return lifts.by_name(name)
    return preferred


def first_named(messages: Iterable[ReconciliationMessage], settings: PeerSettings) -> LiftChoice | None:
    """Return the choice in the first fingerprint of these messages; None without one.

    Raises `LiftRefusedError`.
    """
    for message in messages:
        if type(message) is Fingerprint:
            try:
                named = lifts.read_fingerprint(message.fingerprint)
            except LiftError as error:
                raise LiftRefusedError(str(error)) from error
            if named.lift.name not in settings.lifts:
                raise LiftRefusedError(f"fingerprints of {named.lift.name} are not taken here")
            return LiftChoice(named.lift, named.salt)
    return None


def form_for(settings: PeerSettings, offer: Offer | None) -> Form:
    """Return the form of set reconciliation messages for a remote with this offer."""
    return "compact" if settings.compact_form and offer is not None and offer.compact else "hex"


@dataclass(slots=True)
class Answer:
    """Result of a batch: messages to send, in order; entries that the remote is missing; its heights."""

    messages: list[ReconciliationMessage] = field(default_factory=list)
    entries: list[EntryRange] = field(default_factory=list)
    heights: list[LogHeight] = field(default_factory=list)
    rest: Iterator[list[EntryRange]] | None = None
    """More entries that it is missing, if there are too many to list at once."""


class SetReconciliation:
    """The reconciliation of one session, from its opening until both sides know what the other is missing.

    `rounds` counts the batches of both sides. Errors are `ReconciliationError` and `LiftChangedError`; the
    object cannot be used after one.
    """

    __slots__ = (
        "_choice",
        "_ended",
        "_everything_asked_for",
        "_held",
        "_ledger",
        "_machine",
        "_names_absence",
        "_rule",
        "_schema_ids",
        "_session_id",
        "_store",
        "asks_for_everything",
        "form",
        "messages_in",
        "messages_out",
        "rounds",
    )

    def __init__(
        self,
        store: LogStore,
        session_id: int,
        schema_ids: Sequence[str],
        settings: PeerSettings,
        choice: LiftChoice,
        offer: Offer | None,
    ) -> None:
        """Take a snapshot of the current sync range; `offer` is the remote's."""
        self._store = store
        self._session_id = session_id
        self._schema_ids = schema_ids
        self._rule = settings.rule
        self._choice = choice
        self._held: OrderedSet[LogHeight, bytes] = store.sync_range(schema_ids, choice.lift, choice.salt)
        self._ledger = RemoteHeights(self._held, session_id)
        self.form: Form = form_for(settings, offer)
        short = ShortBounds(self._held) if self.form == "compact" else None
        self._machine: Reconciler[LogHeight, bytes] = Reconciler(
            self._held if short is None else short,
            rule=settings.rule,
            threshold=settings.payload_threshold,
            division=settings.range_division,
            limits=Limits(items_per_run=settings.max_run_items),
            session_id=session_id,
            reply=self._reply,
            move_cuts=None if short is None else short.move_cuts,
        )
        # Whether the remote states that it holds no entry of a log that it was shown.
        self._names_absence = offer is not None and offer.absence
        self._ended = False
        self._everything_asked_for = False
        self.asks_for_everything = False
        """Whether we began and hold nothing: the remote then only has to send its entries."""
        self.rounds = 0
        self.messages_in = 0
        self.messages_out = 0

    @property
    def done(self) -> bool:
        """Whether no more messages are due; `finish` comes next."""
        return self._ended or self._machine.done

    @property
    def differing(self) -> int:
        """Number of logs that were found to be longer on one side."""
        return self._ledger.differing

    def start(self) -> list[ReconciliationMessage]:
        """Return the opening of the side that requested the session."""
        self.asks_for_everything = not len(self._held)
        return self._count_sent(self._machine.start())

    def receive(self, messages: Sequence[ReconciliationMessage]) -> Answer:
        """Process a batch of the remote, or any part of it.

        Raises `ReconciliationError` and `LiftChangedError`.
        """
        assert not self.done, "messages after the end are ignored"
        first = not self.messages_in
        self.messages_in += len(messages)
        self._choice.check(messages)
        if first and isinstance(messages[0], EmptySet) and messages[0].can_respond:
            return self._answer_empty_set()
        if not self._names_absence:
            self._names_absence = any(type(message) is Fingerprint for message in messages)
        answer = Answer(self._machine.receive_batch(messages))
        facts = self._machine.take_facts()
        self._names_absence = self._names_absence or any(not item[2] for item in facts.shown)
        self._ledger.show(facts.shown)
        self._ledger.equal(facts.equal)
        lacking = self._ledger.complete(facts.complete) + self._ledger.answered(facts.answered)
        self._ledger.close_ranges()
        if isinstance(messages[-1], Terminal | EmptySet):
            self.rounds += 1
            self._ended = self.asks_for_everything
        if not self._ended:
            self._count_sent(answer.messages)
        else:
            answer.messages = []
        answer.entries = in_order(self._store, lacking)
        answer.heights = self._ledger.take_heights()
        return answer

    def finish(self, max_equal_heights: int) -> Answer:
        """End the reconciliation; returns the entries of logs that were never mentioned.

        The messages of `last_words` are sent after them.
        """
        count = self._ledger.close(silence_is_equal=self._names_absence)
        answer = Answer(heights=self._ledger.equal_heights(max_equal_heights))
        if count <= ranges.SORTED_AT_ONCE:
            answer.entries = in_order(self._store, self._ledger.never_mentioned())
        else:
            answer.rest = in_slices(self._store, self._schema_ids, self._ledger.never_mentioned)
        return answer

    def last_words(self) -> list[ReconciliationMessage]:
        """Return the end message for a remote that asked for everything; empty for other remotes."""
        return self._count_sent([Terminal(self._session_id)]) if self._everything_asked_for else []

    def end(self) -> None:
        """End the reconciliation: the remote, which was asked for everything, sends no more messages."""
        assert self.asks_for_everything, "there is something to reconcile"
        self._ended = True

    def _answer_empty_set(self) -> Answer:
        """Answer a remote that holds nothing: it is sent everything, and no other messages are needed."""
        self.rounds += 1
        self._ended = True
        self._everything_asked_for = len(self._held) > 0
        if self._everything_asked_for:
            return Answer()
        return Answer(self._count_sent([EmptySet(self._session_id, False)]))

    def _count_sent(self, messages: list[ReconciliationMessage]) -> list[ReconciliationMessage]:
        self.messages_out += len(messages)
        self.rounds += sum(1 for message in messages if isinstance(message, LowerBound | EmptySet))
        return messages

    def _reply(self, received: Sequence[Any], span: Span) -> Sequence[LogHeight]:
        """Return what we hold differently in a range of which the remote has shown all its items.

        The specification lets a peer be silent about logs that it does not hold. The remote cannot
        distinguish these from logs that both hold at the same height, and would have to send them all. We
        name them with number 0.
        """
        if not received and self._rule == "even":
            # The remote holds nothing here. It receives the entries anyway, so there is nothing to compare.
            return ()
        theirs = {(public_key, log_id): seq_num for public_key, log_id, seq_num in received}
        ours = [item for item in self._held.items(*span) if theirs.pop(item[:2], None) != item[2]]
        ours += ((*key, self._store.height(*key)) for key, seq_num in theirs.items() if seq_num)
        ours.sort()
        return ours
