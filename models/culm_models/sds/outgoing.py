"""The buffer of unacknowledged outgoing messages and their re-sends (sds.md, Periodic Outgoing Buffer Sweep).

One buffer a channel, for all participants that this side hosts: a received message is reviewed once for all
of them. What is sent again is byte for byte what was sent first; of the wire bytes only the parts before and
after the filter are kept, with the mark of the filter's value, which is the same for all and large.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from culm_models.sds.acknowledgement import AckState, Fact, Filter, HashPair
from culm_models.sds.backoff import Draw
from culm_models.sds.errors import SdsError


class OutgoingFullError(SdsError):
    """As many messages of this participant as may wait for acknowledgement do so already."""

    code: ClassVar[str] = "sds.outgoing.full"


@dataclass(frozen=True, slots=True)
class ResendRule:
    """`attempts`: re-sends before a message is given up. `most_waiting`: messages of one participant."""

    unacknowledged_ms: int = 30_000
    possibly_acknowledged_ms: int = 120_000
    most_ms: int = 600_000
    attempts: int = 10
    possible_acks_threshold: int = 2
    most_waiting: int = 10_000


@dataclass(frozen=True, slots=True)
class Stripped:
    """Wire bytes without the filter: wire = before + filter field (value at `filter_mark`) + after."""

    before: bytes
    filter_mark: int
    after: bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that waits for acknowledgement. `attempts`: how often it was sent again."""

    participant_id: str
    message_id: str
    pair: HashPair
    stripped: Stripped
    state: AckState = "unacknowledged"
    evidence: tuple[str, ...] = ()
    attempts: int = 0
    next_due_ms: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """`resend`: to be sent again now (attempts counted already). `gave_up`: out, as they were."""

    resend: tuple[Pending, ...] = ()
    gave_up: tuple[Pending, ...] = ()


class Outgoing:
    """What waits for acknowledgement in one channel."""

    def __init__(self, rule: ResendRule, draw: Draw) -> None:
        raise NotImplementedError

    def room(self, participant_id: str) -> None:
        """Raises `OutgoingFullError` when no further message of this participant is taken."""
        raise NotImplementedError

    def add(
        self, participant_id: str, message_id: str, pair: HashPair, stripped: Stripped, now_ms: int
    ) -> None:
        """The message was sent just now. An id that waits already is a programmer error."""
        raise NotImplementedError

    def review(
        self, sender_id: str, history_ids: Iterable[str], filter: Filter | None, now_ms: int
    ) -> list[Fact]:
        """What a received message says of those that wait: see `Acknowledgements.review`."""
        raise NotImplementedError

    def due(self, now_ms: int, most: int = 256) -> Due:
        """What is due by `now_ms`, at most `most` of it: unacknowledged messages first, earliest first."""
        raise NotImplementedError

    def next_due_ms(self) -> int | None:
        """The earliest time at which `due` has something; None when nothing waits."""
        raise NotImplementedError

    def hasten(self, message_id: str, now_ms: int) -> bool:
        """Make the message due now (a person's "send again"); False when it does not wait."""
        raise NotImplementedError

    def leave(self, participant_id: str) -> list[Pending]:
        """The participant has left: its messages are dropped, and returned."""
        raise NotImplementedError

    def get(self, message_id: str) -> Pending | None:
        """The message as it stands; None when it does not wait."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __contains__(self, message_id: object) -> bool:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Pending]:
        """All that waits, in the order of sending."""
        raise NotImplementedError

    def least_mark(self) -> int | None:
        """The oldest filter mark that a re-send may still need; None when nothing waits."""
        raise NotImplementedError

    def pack(self, *, stripped: bool = True) -> bytes:
        """All of it as bytes, equal for equal histories; without `stripped`, all but the wire bytes."""
        raise NotImplementedError

    @classmethod
    def unpack(
        cls,
        data: bytes,
        rule: ResendRule,
        draw: Draw,
        *,
        stripped: Callable[[str], Stripped] | None = None,
    ) -> "Outgoing":
        """What `pack` wrote. `stripped` gives the wire bytes by message id when they were left out."""
        raise NotImplementedError
