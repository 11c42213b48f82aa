"""What a session has to send, in order; its own diff, in the midst of it, is made while it is sent.

Live packets are held back until the own V is out (reference 4.1 step 6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator


class Outgoing:
    """The records that wait to be taken. An edge with slow peers bounds what it puts in, this does not."""

    __slots__ = ("_diff", "_diff_begun", "_first", "_held", "_later")

    def __init__(self) -> None:
        self._first: deque[bytes] = deque()
        """In front of the diff."""
        self._diff: Iterator[bytes] | None = None
        self._diff_begun = False
        self._later: deque[bytes] = deque()
        """Behind it."""
        self._held: list[bytes] = []

    @property
    def has_diff(self) -> bool:
        """Whether a diff is not taken to its end."""
        return self._diff is not None

    def append(self, record: bytes) -> None:
        """Send a record behind all others."""
        (self._first if self._diff is None else self._later).append(record)

    def append_urgent(self, record: bytes) -> None:
        """Send a record before what is left of a diff that has begun, else behind all others."""
        (self._first if self._diff is None or self._diff_begun else self._later).append(record)

    def hold(self, record: bytes) -> None:
        """Keep a live packet until the own V is out."""
        self._held.append(record)

    def begin_diff(self, records: Iterator[bytes]) -> None:
        """Send these behind what waits now, each made when its turn has come."""
        assert self._diff is None, "a connection has one diff of its own"
        self._diff = records

    def end_diff(self) -> None:
        """The own V is out, or none is due: what was held and what waited behind it may follow."""
        self._diff = None
        self._first += self._held
        self._first += self._later
        self._later.clear()
        self._held = []

    def drop_begun_diff(self) -> None:
        """Send no more of a diff of which something was taken: its receiver keeps nothing of it without V."""
        if self._diff is not None and self._diff_begun:
            self.drop_held()
            self.end_diff()

    def drop_held(self) -> None:
        """The peer gets no live packets."""
        self._held = []

    def clear(self) -> None:
        """Nothing can be sent any more."""
        self._first.clear()
        self._later.clear()
        self._held = []
        self._diff = None

    def next(self) -> bytes | None:
        """The next record; None when nothing waits, or when the diff ended and `end_diff` is to be called.

        Empty where the diff has worked for a while and has nothing yet: ask again.
        """
        if self._first:
            return self._first.popleft()
        if self._diff is None:
            return None
        self._diff_begun = True
        return next(self._diff, None)
