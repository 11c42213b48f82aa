"""Messages that others have named and we do not have: when to fetch them, when to call them lost.

(sds.md, Periodic Incoming Buffer Sweep.) A missing id is fetched from the store with back-off until it comes
or its time is over; then it is irretrievably lost, and what waited for it goes on. Bounded: when full, a new
id is refused, and asked for again by the next message that names it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from culm_models.sds.backoff import Draw
from culm_models.sds.messages import HistoryEntry


@dataclass(frozen=True, slots=True)
class FetchRule:
    """`first_ms`: how long a message that may only be late is waited for before the first fetch."""

    first_ms: int = 0
    retry_ms: int = 10_000
    most_ms: int = 600_000
    lost_ms: int = 3_600_000
    most_waiting: int = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A missing message: since when, fetched how often, and when it is fetched next and called lost."""

    entry: HistoryEntry
    since_ms: int
    attempts: int
    next_due_ms: int
    lost_at_ms: int


@dataclass(frozen=True, slots=True)
class MissingDue:
    """`fetch`: to be retrieved now (attempts already counted). `lost`: given up, out of the book."""

    fetch: tuple[Wanted, ...] = ()
    lost: tuple[Wanted, ...] = ()


class Missing:
    """The missing messages of one channel."""

    def __init__(self, rule: FetchRule, draw: Draw) -> None:
        raise NotImplementedError

    def want(self, entry: HistoryEntry, now_ms: int) -> bool:
        """A message is missing: True when that is new. A hint or sender that was unknown is filled in."""
        raise NotImplementedError

    def got(self, message_id: str) -> bool:
        """A copy came; whether it was missing."""
        raise NotImplementedError

    def due(self, now_ms: int, most: int = 256) -> MissingDue:
        """What is due by `now_ms`, at most `most` of it, earliest first."""
        raise NotImplementedError

    def next_due_ms(self) -> int | None:
        """The earliest time at which `due` has something; None when nothing is missing."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __contains__(self, message_id: object) -> bool:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Wanted]:
        """All that is missing, in the order in which it was missed."""
        raise NotImplementedError

    def pack(self) -> bytes:
        """All of it as bytes, equal for equal histories."""
        raise NotImplementedError

    @classmethod
    def unpack(cls, data: bytes, rule: FetchRule, draw: Draw) -> "Missing":
        """What `pack` wrote."""
        raise NotImplementedError
