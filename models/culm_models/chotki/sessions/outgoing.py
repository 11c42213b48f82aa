"""Queue of the records that a session has to send; its own diff, within it, is made while it is sent.

Live packets are held back until this side's V was sent (reference 4.1 step 6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator


class OutgoingRecords:
    """The records that wait to be taken. An edge with slow peers limits what it adds; this class does not."""

    __slots__ = ("_diff", "_diff_begun", "_first", "_held", "_later", "diff_is_out")

    def __init__(self) -> None:
        self._first: deque[bytes] = deque()
        """Records before the diff."""
        self._diff: Iterator[bytes] | None = None
        self._diff_begun = False
        self._later: deque[bytes] = deque()
        """Records behind the diff."""
        self._held: list[bytes] = []
        """Live packets that wait for this side's V."""
        self.diff_is_out = False
        """Whether this side's V was sent, or no diff is due."""

    @property
    def has_diff(self) -> bool:
        """Whether a diff was not taken to its end."""
        return self._diff is not None

    def append(self, record: bytes) -> None:
        """Send a record behind all others."""
        (self._first if self._diff is None else self._later).append(record)

    def append_urgent(self, record: bytes) -> None:
        """Send a record before the rest of a diff that has begun, else behind all others."""
        (self._first if self._diff is None or self._diff_begun else self._later).append(record)

    def append_live(self, record: bytes) -> None:
        """Send a live packet behind all others; it is kept until this side's V was sent."""
        if self.diff_is_out:
            self.append(record)
        else:
            self._held.append(record)

    def begin_diff(self, records: Iterator[bytes]) -> None:
        """Send these records behind the waiting ones; each is made when it is taken."""
        assert self._diff is None, "a connection has one diff of its own"
        self._diff = records

    def end_diff(self) -> None:
        """End the diff: this side's V was sent, or no diff is due. Held and later records may follow."""
        self.diff_is_out = True
        self._diff = None
        self._first += self._held
        self._first += self._later
        self._later.clear()
        self._held = []

    def drop_begun_diff(self) -> None:
        """Drop the rest of a diff that was taken in part: its receiver keeps nothing of it without V."""
        if self._diff is not None and self._diff_begun:
            self.drop_held()
            self.end_diff()

    def drop_held(self) -> None:
        """Drop the held packets: the peer gets no live packets."""
        self._held = []

    def clear(self) -> None:
        """Drop everything: nothing can be sent any more."""
        self._first.clear()
        self._later.clear()
        self._held = []
        self._diff = None

    def take(self, max_bytes: int | None, *, on_diff_end: Callable[[], None]) -> list[bytes]:
        """Return the next records; with ``max_bytes`` stop once that many bytes are taken.

        With ``max_bytes`` it also stops when the diff has worked for a while without a result. It calls
        ``on_diff_end``, which must call `end_diff`, when the diff has no more records.
        """
        taken: list[bytes] = []
        size = 0
        while max_bytes is None or size < max_bytes:
            record = self._next()
            if record:
                taken.append(record)
                size += len(record)
            elif record is not None:
                if max_bytes is not None:
                    break
            elif self._diff is not None:
                on_diff_end()
            else:
                break
        return taken

    def _next(self) -> bytes | None:
        """Return the next record, or None if nothing waits or if the diff ended and `end_diff` is due.

        The record is empty if the diff has worked for a while without a result: call again.
        """
        if self._first:
            return self._first.popleft()
        if self._diff is None:
            return None
        self._diff_begun = True
        return next(self._diff, None)
