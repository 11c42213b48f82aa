"""The batch being sent: messages in order, with adjacent `Done`s merged into one (rbsr.md, 1.4).

A brief side merges more. Consecutive replies become one run, together with the ranges between them that the
remote closed; a batch that has nothing else to say consists of its terminal alone. The answer to a
fingerprint stays separate, because it states that both sides hold the same.
"""

from collections.abc import Sequence
from typing import Any, Final

from culm_models.frozen import unfrozen
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)
from culm_models.reconciliation.ordered_set import Position, Span, position
from culm_models.reconciliation.questions import BY_EMPTY, BY_FINGERPRINT, BY_RUN, Question, Questions

# Created by the thousand: see culm_models.frozen.
_PLAIN_FINGERPRINT: Final = unfrozen(Fingerprint)
_PLAIN_PAYLOAD: Final = unfrozen(Payload)

# A reply is sent in parts of this size: the remote learns of its items when the part is complete.
_REPLY_MAX: Final = 1_024


class Outgoing:
    """Writes messages and records what they ask. A held `Done` precedes the next other message."""

    __slots__ = (
        "_asked",
        "_begin",
        "_brief",
        "_compared",
        "_held",
        "_implied",
        "_messages",
        "_shown",
        "_waits",
        "session_id",
    )

    def __init__(self, session_id: int, *, brief: bool = False) -> None:
        self.session_id = session_id
        self._brief = brief
        # Whether anything is held back: the lower bound, a `Done`, or a reply.
        self._waits = False
        self._begin: tuple[Any] | None = None
        self._shown: list[Any] = []
        # Whether the held `Done` answers a fingerprint.
        self._compared = False
        self._messages: list[ReconciliationMessage] = []
        self._asked: list[Question] = []
        # Tuples of one item, because a bound may be falsy.
        self._held: tuple[Any] | None = None
        self._implied: tuple[Any] | None = None

    @property
    def asks(self) -> bool:
        """Whether the batch so far needs an answer."""
        return bool(self._asked)

    def take(self) -> list[ReconciliationMessage]:
        """Return the messages since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def lower_bound(self, value: Any) -> None:
        """Begin the batch at this bound."""
        self._begin = (value,)
        self._waits = True
        if not self._brief:
            self._release()

    def empty_set(self, *, can_respond: bool) -> None:
        """Write that this side holds no items at all."""
        self._messages.append(EmptySet(self.session_id, can_respond))

    def done(self, upper: Any, *, implied: bool = False, compared: bool = False) -> None:
        """Note that there is nothing more up to ``upper``; the message is held back.

        ``implied``: needs no message at the end of the batch. It is written if another range follows, which
        would otherwise be read with the wrong lower bound. ``compared``: the range is equal by its
        fingerprints.
        """
        if compared:
            if self._shown:
                self._release()
            self._compared = True
        self._implied = (upper,)
        self._waits = True
        if not implied:
            self._held = self._implied

    def empty_payload(self, upper: Any, low: Position, high: Position) -> None:
        """Write that this side has no items in the range, and ask for the remote's."""
        if self._waits:
            self._release()
        self._messages.append(EmptyPayload(self.session_id, upper))
        self._asked.append((low, high, BY_EMPTY, (0, 0)))

    def fingerprint(self, value: Any, upper: Any, low: Position, high: Position, span: Span) -> None:
        """Write the fingerprint of our items in a range."""
        self.fingerprints((span,), (value,), (), upper, low, high, None)

    def fingerprints(
        self,
        spans: Sequence[Span],
        values: Sequence[Any],
        between: Sequence[Any],
        upper: Any,
        low: Position,
        high: Position,
        origin: Any,
    ) -> None:
        """Write the fingerprints of our items in the parts of a range, with bounds ``between`` the parts."""
        if self._waits:
            self._release()
        session_id, say, ask = self.session_id, self._messages.append, self._asked.append
        last = len(between)
        for index, (span, value) in enumerate(zip(spans, values, strict=True)):
            if index < last:
                bound = between[index]
                end = position(bound, origin)
            else:
                bound, end = upper, high
            message = _PLAIN_FINGERPRINT(session_id, value, bound)
            message.__class__ = Fingerprint
            say(message)
            ask((low, end, BY_FINGERPRINT, span))
            low = end

    def question(self, items: Sequence[Any], upper: Any, low: Position, high: Position, span: Span) -> None:
        """Write all our items of the range (1 or more) and ask for the remote's other items."""
        if self._waits:
            self._release()
        self._run(items, upper, can_respond=True)
        self._asked.append((low, high, BY_RUN, span))

    def reply(self, items: Sequence[Any], upper: Any) -> None:
        """Write these items (1 or more), with which the range ends."""
        if self._waits and (self._compared or not self._brief):
            self._release()
        self._shown += items
        self._implied = self._held = (upper,)
        self._waits = True
        if not self._brief or len(self._shown) >= _REPLY_MAX:
            self._release()

    def terminal(self) -> Questions:
        """End the batch and return what it asks. The next batch begins."""
        if self._held:
            self._implied = self._held
            self._release()
        self._implied = None
        if self._begin is None:
            self._messages.append(Terminal(self.session_id))
        self._begin = None
        self._waits = False
        questions, self._asked = Questions(self._asked), []
        return questions

    def _run(self, items: Sequence[Any], upper: Any, *, can_respond: bool) -> None:
        session_id, append = self.session_id, self._messages.append
        for item in items[:-1]:
            message = _PLAIN_PAYLOAD(session_id, item, None, None)
            message.__class__ = Payload
            append(message)
        append(Payload(session_id, items[-1], can_respond, upper))

    def _release(self) -> None:
        self._waits = False
        if self._begin:
            self._messages.append(LowerBound(self.session_id, self._begin[0]))
            self._begin = None
        if not self._implied:
            return
        upper = self._implied[0]
        self._held = self._implied = None
        self._compared = False
        if self._shown:
            shown, self._shown = self._shown, []
            self._run(shown, upper, can_respond=False)
        else:
            self._messages.append(Done(self.session_id, upper))
