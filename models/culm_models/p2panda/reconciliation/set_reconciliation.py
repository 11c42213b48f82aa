"""One side of a session of mode 1: what to say, and which entries the remote turns out to lack.

The specification ("replication", 2.1 and 2.2) has the published algorithm find where the sync ranges differ,
and takes what is shown by its sequence numbers: the higher one has what the other lacks. So here the set of
items never changes. It is the logs' heights as they were at the start; what is stored meanwhile goes out in
live mode, or by the next session.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from culm_models import lifts
from culm_models.lifts import Lift, LiftError
from culm_models.p2panda.errors import SessionError
from culm_models.p2panda.reconciliation import ranges
from culm_models.p2panda.reconciliation.ranges import EntryRange, in_order, in_slices
from culm_models.p2panda.sessions.remote_heights import Ledger
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

# Every fingerprint names its lift and carries its salt: the side that begins chooses, the other one takes the
# choice from the first fingerprint that comes, or refuses. Nothing is said about it beside that.


class LiftRefusedError(SessionError, code="p2panda.session.lift"):
    """The remote's fingerprints are of a lift that is not taken here."""


class LiftChangedError(SessionError, code="p2panda.session.lift_changed"):
    """A fingerprint is of another lift or salt than those before it."""


@dataclass(frozen=True, slots=True)
class LiftChoice:
    """A lift with the salt of this session, empty for a lift that takes none."""

    lift: Lift
    salt: bytes = b""

    def check(self, messages: Iterable[ReconciliationMessage]) -> None:
        """Raise `LiftChangedError` unless all fingerprints are of this choice."""
        prefix = self.lift.prefix(self.salt)
        size = len(prefix) + self.lift.value_bytes
        for message in messages:
            if type(message) is Fingerprint:
                data = message.fingerprint
                if len(data) != size or not data.startswith(prefix):
                    raise LiftChangedError(f"a fingerprint that is not of {self.lift.name} and its salt")


def choose(settings: PeerSettings, offer: Offer | None) -> Lift:
    """The lift for a session of ours: the preferred one, or else the first that the remote takes."""
    preferred = lifts.by_name(settings.lift)
    if offer is None or preferred.code in offer.lifts:
        return preferred
    for name in settings.lifts:
        if lifts.by_name(name).code in offer.lifts:
            return lifts.by_name(name)
    return preferred


def first_named(messages: Iterable[ReconciliationMessage], settings: PeerSettings) -> LiftChoice | None:
    """What the first fingerprint among these names; None where there is none. Raises `LiftRefusedError`."""
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
    """How messages of set reconciliation are written to a remote with this offer."""
    return "compact" if settings.compact_form and offer is not None and offer.compact else "hex"


@dataclass(slots=True)
class Answer:
    """What follows from a batch: messages to say, in order; entries that the remote lacks; its heights."""

    messages: list[ReconciliationMessage] = field(default_factory=list)
    entries: list[EntryRange] = field(default_factory=list)
    heights: list[LogHeight] = field(default_factory=list)
    rest: Iterator[list[EntryRange]] | None = None
    """More entries that it lacks: too many to be made all at once."""


class SetReconciliation:
    """The reconciliation of one session, from its opening until both know what the other lacks.

    `rounds` counts the batches of both sides. Errors are `ReconciliationError` and `LiftChangedError`; it is
    of no use after one.
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
        """Looks at the sync range as it is now; `offer` is the remote's."""
        self._store = store
        self._session_id = session_id
        self._schema_ids = schema_ids
        self._rule = settings.rule
        self._choice = choice
        self._held: OrderedSet[LogHeight, bytes] = store.sync_range(schema_ids, choice.lift, choice.salt)
        self._ledger = Ledger(self._held, session_id)
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
            place=None if short is None else short.place,
        )
        # Whether the remote says so when it holds nothing of a log that it was shown.
        self._names_absence = offer is not None and offer.absence
        self._ended = False
        self._everything_asked_for = False
        self.asks_for_everything = False
        """Whether we hold nothing and began: what the remote has to do is to send what it holds."""
        self.rounds = 0
        self.messages_in = 0
        self.messages_out = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left to be said; `finish` comes next."""
        return self._ended or self._machine.done

    @property
    def differing(self) -> int:
        """How many logs were found to be longer on one side."""
        return self._ledger.differing

    def start(self) -> list[ReconciliationMessage]:
        """The opening of the side that asked for the session."""
        self.asks_for_everything = not len(self._held)
        return self._say(self._machine.start())

    def receive(self, messages: Sequence[ReconciliationMessage]) -> Answer:
        """Take a batch of the remote, or any part of it.

        Raises `ReconciliationError` and `LiftChangedError`.
        """
        assert not self.done, "what comes behind the end is passed over"
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
            self._say(answer.messages)
        else:
            answer.messages = []
        answer.entries = in_order(self._store, lacking)
        answer.heights = self._ledger.take_heights()
        return answer

    def finish(self, max_equal_heights: int) -> Answer:
        """The end: entries of logs that were never mentioned. What `last_words` says comes behind them."""
        count = self._ledger.close(silence_is_equal=self._names_absence)
        answer = Answer(heights=self._ledger.equal_heights(max_equal_heights))
        if count <= ranges.SORTED_AT_ONCE:
            answer.entries = in_order(self._store, self._ledger.never_mentioned())
        else:
            answer.rest = in_slices(self._store, self._schema_ids, self._ledger.never_mentioned)
        return answer

    def last_words(self) -> list[ReconciliationMessage]:
        """Where the remote has asked for everything, it learns here that this was all."""
        return self._say([Terminal(self._session_id)]) if self._everything_asked_for else []

    def end(self) -> None:
        """The remote, which was asked for everything, says no more."""
        assert self.asks_for_everything, "there is something to reconcile"
        self._ended = True

    def _answer_empty_set(self) -> Answer:
        """The remote holds nothing: it is sent everything, and that is all there is to say."""
        self.rounds += 1
        self._ended = True
        self._everything_asked_for = len(self._held) > 0
        if self._everything_asked_for:
            return Answer()
        return Answer(self._say([EmptySet(self._session_id, False)]))

    def _say(self, messages: list[ReconciliationMessage]) -> list[ReconciliationMessage]:
        self.messages_out += len(messages)
        self.rounds += sum(1 for message in messages if isinstance(message, LowerBound | EmptySet))
        return messages

    def _reply(self, received: Sequence[Any], span: Span) -> Sequence[LogHeight]:
        """What to show of a range in which the remote has shown everything: what we hold otherwise.

        The specification lets a peer be silent about logs that it does not hold. The remote cannot tell that
        from logs that it holds alike, and would have to send them all: we name them with number 0.
        """
        if not received and self._rule == "even":
            # It holds nothing here. The entries come to it anyway, and there is nothing to compare them with.
            return ()
        theirs = {(public_key, log_id): seq_num for public_key, log_id, seq_num in received}
        ours = [item for item in self._held.items(*span) if theirs.pop(item[:2], None) != item[2]]
        ours += ((*key, self._store.height(*key)) for key, seq_num in theirs.items() if seq_num)
        ours.sort()
        return ours
