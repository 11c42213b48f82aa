"""The ids that a message names before its regular causal history, because others might not learn of them.

Repeated ids: their sender does not know that anyone has the message. Missing ids: another participant's
filter shows that it is missing the message; each is named by a few syncs. Unnamed ids: received content that
a filter of this side has contained and no causal history has named. One participant's filter acknowledges
nothing for certain, and others' filters are often equal to it, so that the sender would repeat all these
messages. Each is named twice, since one sync may be lost.
"""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, Final

MAX_NAMED: Final = 256
"""Limit of ids that one sync names before its regular causal history."""
MAX_REPEATED: Final = 128
_MAX_MISSING: Final = 64
_MAX_NAMINGS: Final = 4
_NAMED_FOR: Final = 16
_MAX_COUNTED: Final = 1_024
_MAX_UNNAMED: Final = 64
_TIMES: Final = 2


class SyncNames:
    """The ids that the next sync of a channel names."""

    __slots__ = ("_missing", "_namings", "_namings_sent", "_repeated", "_since_named", "_unnamed")

    def __init__(self) -> None:
        # Repeated and unnamed ids with their writers, whose own messages acknowledge nothing of them.
        self._repeated: dict[str, str] = {}
        self._missing: dict[str, None] = {}
        # How many syncs have named each id that others were missing, and the number of content messages since
        # the count began: it begins again for participants that received nothing for a while or lost their
        # state.
        self._namings: dict[str, int] = {}
        self._since_named = 0
        # Also the number of messages sent before, since only the filters of later ones contain the id, and
        # how often the id is still to be named.
        self._unnamed: dict[str, tuple[str, int, int]] = {}
        self._namings_sent = 0

    @property
    def any_repeated(self) -> bool:
        """Whether a sender waits for an answer."""
        return bool(self._repeated)

    def content_came(self) -> None:
        """Count a message with content that was sent or received."""
        self._since_named += 1
        if self._since_named >= _NAMED_FOR:
            self._since_named = 0
            self._namings.clear()

    def received(self, message_id: str, writer_id: str) -> None:
        """Add new content of another participant."""
        self._name(message_id, writer_id, _TIMES)

    def repeated(self, message_id: str, writer_id: str) -> bool:
        """Add known content that was sent again. Returns whether it is new here and there is capacity."""
        if message_id in self._repeated or len(self._repeated) == MAX_REPEATED:
            return False
        self._repeated[message_id] = writer_id
        return True

    def add_missing(self, message_ids: Iterable[str]) -> bool:
        """Add ids that another participant is missing. Returns whether any was not named often enough."""
        is_new = False
        for message_id in message_ids:
            if self._namings.get(message_id, 0) < _MAX_NAMINGS:
                is_new = True
                if len(self._missing) < _MAX_MISSING:
                    self._missing[message_id] = None
        return is_new

    def named_by(self, sender_id: str, message_ids: Iterable[str]) -> None:
        """Remove ids that another participant's causal history names: it acknowledges others' messages."""
        if self._repeated or self._unnamed:
            for message_id in message_ids:
                if self._repeated.get(message_id, sender_id) != sender_id:
                    del self._repeated[message_id]
                if self._unnamed.get(message_id, (sender_id,))[0] != sender_id:
                    del self._unnamed[message_id]

    def mark_named(self, message_ids: Iterable[str]) -> None:
        """Count a sent message; its causal history names these ids, and its filter contains all held ids."""
        waited = self._repeated or self._unnamed or self._missing
        for message_id in message_ids if waited else ():
            repeated_by = self._repeated.pop(message_id, None)
            if repeated_by is not None:
                self._name(message_id, repeated_by, _TIMES - 1)
            elif message_id in self._unnamed:
                writer_id, _, times = self._unnamed.pop(message_id)
                self._name(message_id, writer_id, times - 1)
            if message_id in self._missing:
                del self._missing[message_id]
                self._namings[message_id] = self._namings.pop(message_id, 0) + 1
        self._namings_sent += 1
        while len(self._namings) > _MAX_COUNTED:
            del self._namings[next(iter(self._namings))]

    def urgent(self) -> tuple[str, ...]:
        """Return the ids that content also names if it is sent now: repeated ones, then missing ones."""
        return tuple(dict.fromkeys(chain(self._repeated, self._missing)))

    def names(self) -> tuple[str, ...]:
        """Return the ids that the next sync names: the urgent ones, then unnamed ones."""
        shown = (
            message_id
            for message_id, (_, named_at, _) in self._unnamed.items()
            if named_at < self._namings_sent
        )
        return tuple(islice(dict.fromkeys(chain(self._repeated, self._missing, shown)), MAX_NAMED))

    def clear(self) -> None:
        """Remove all ids."""
        self._repeated.clear()
        self._missing.clear()
        self._unnamed.clear()

    def items(self) -> list[Any]:
        """Return the state for `restored`."""
        return [
            self._namings_sent,
            self._since_named,
            list(self._repeated.items()),
            list(self._missing),
            list(self._namings.items()),
            [[message_id, *unnamed] for message_id, unnamed in self._unnamed.items()],
        ]

    @classmethod
    def restored(cls, items: list[Any]) -> "SyncNames":
        """Restore the result of `items`."""
        names = cls()
        names._namings_sent, names._since_named, repeated, missing, namings, unnamed = items
        names._repeated = dict(repeated)
        names._missing = dict.fromkeys(missing)
        names._namings = dict(namings)
        names._unnamed = {entry[0]: (entry[1], entry[2], entry[3]) for entry in unnamed}
        return names

    def _name(self, message_id: str, writer_id: str, times: int) -> None:
        """Let an id be named so many times, by messages after this side's next one."""
        # Ids that were never named need the capacity more.
        if times == _TIMES or (times and len(self._unnamed) < _MAX_UNNAMED // 2):
            self._unnamed[message_id] = (writer_id, self._namings_sent, times)
            if len(self._unnamed) > _MAX_UNNAMED:
                del self._unnamed[next(iter(self._unnamed))]
