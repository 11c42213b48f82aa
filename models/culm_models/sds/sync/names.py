"""Which ids a message names before its regular causal history, which others might not learn of otherwise.

Repeated ones: their sender does not know that anyone has them. Lacking ones: another participant's filter
shows that it has not got them; each is named by a few syncs. Unnamed ones: received content that a filter of
ours has shown and that no causal history has named; one participant's filter acknowledges nothing for
certain, and others' filters are often equal to it, so that the sender would repeat them all. Each is named
twice, for one sync may be lost.
"""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, Final

MOST_NAMED: Final = 256
"""Ids that one sync names before its regular causal history."""
MOST_REPEATED: Final = 128
_MOST_LACKING: Final = 64
_MOST_NAMINGS: Final = 4
_NAMED_FOR: Final = 16
_MOST_COUNTED: Final = 1_024
_MOST_UNNAMED: Final = 64
_TIMES: Final = 2


class SyncNames:
    """What the next sync of a channel names."""

    __slots__ = ("_lacking", "_namings", "_repeated", "_said", "_since_named", "_unnamed")

    def __init__(self) -> None:
        # Repeated and unnamed ones with who wrote them: what writers say of their own is no acknowledgement.
        self._repeated: dict[str, str] = {}
        self._lacking: dict[str, None] = {}
        # How many syncs have named what others lacked, and how many messages with content came since the
        # count began: whoever was deaf for a while, or lost its state, has them named again.
        self._namings: dict[str, int] = {}
        self._since_named = 0
        # And how many messages of ours came before, for the filters of later ones show it; and how often it
        # is still to be named.
        self._unnamed: dict[str, tuple[str, int, int]] = {}
        self._said = 0

    @property
    def any_repeated(self) -> bool:
        """Whether a sender waits for an answer."""
        return bool(self._repeated)

    def content_came(self) -> None:
        """A message with content was sent or received."""
        self._since_named += 1
        if self._since_named >= _NAMED_FOR:
            self._since_named = 0
            self._namings.clear()

    def received(self, message_id: str, writer_id: str) -> None:
        """New content of another participant was taken."""
        self._name(message_id, writer_id, _TIMES)

    def repeated(self, message_id: str, writer_id: str) -> bool:
        """Content that we have was sent again; whether that is new, and there is room for it."""
        if message_id in self._repeated or len(self._repeated) == MOST_REPEATED:
            return False
        self._repeated[message_id] = writer_id
        return True

    def lacks(self, message_ids: Iterable[str]) -> bool:
        """Another participant has not got these; whether any of them was not named often enough."""
        is_new = False
        for message_id in message_ids:
            if self._namings.get(message_id, 0) < _MOST_NAMINGS:
                is_new = True
                if len(self._lacking) < _MOST_LACKING:
                    self._lacking[message_id] = None
        return is_new

    def named_by(self, sender_id: str, message_ids: Iterable[str]) -> None:
        """Another participant's causal history names these, which acknowledges those of others."""
        if self._repeated or self._unnamed:
            for message_id in message_ids:
                if self._repeated.get(message_id, sender_id) != sender_id:
                    del self._repeated[message_id]
                if self._unnamed.get(message_id, (sender_id,))[0] != sender_id:
                    del self._unnamed[message_id]

    def said(self, message_ids: Iterable[str]) -> None:
        """A message of ours went out, whose causal history names these and whose filter shows all we have."""
        waited = self._repeated or self._unnamed or self._lacking
        for message_id in message_ids if waited else ():
            repeated_by = self._repeated.pop(message_id, None)
            if repeated_by is not None:
                self._name(message_id, repeated_by, _TIMES - 1)
            elif message_id in self._unnamed:
                writer_id, _, times = self._unnamed.pop(message_id)
                self._name(message_id, writer_id, times - 1)
            if message_id in self._lacking:
                del self._lacking[message_id]
                self._namings[message_id] = self._namings.pop(message_id, 0) + 1
        self._said += 1
        while len(self._namings) > _MOST_COUNTED:
            del self._namings[next(iter(self._namings))]

    def urgent(self) -> tuple[str, ...]:
        """What content that is sent now names too: repeated ones, then lacking ones."""
        return tuple(dict.fromkeys(chain(self._repeated, self._lacking)))

    def names(self) -> tuple[str, ...]:
        """What the next sync names: the urgent ones, then unnamed ones."""
        shown = (message_id for message_id, (_, said, _) in self._unnamed.items() if said < self._said)
        return tuple(islice(dict.fromkeys(chain(self._repeated, self._lacking, shown)), MOST_NAMED))

    def clear(self) -> None:
        """There is nothing to name any more."""
        self._repeated.clear()
        self._lacking.clear()
        self._unnamed.clear()

    def items(self) -> list[Any]:
        """What a new one is made of, to go on as this one: for `restored`."""
        return [
            self._said,
            self._since_named,
            list(self._repeated.items()),
            list(self._lacking),
            list(self._namings.items()),
            [[message_id, *one] for message_id, one in self._unnamed.items()],
        ]

    @classmethod
    def restored(cls, items: list[Any]) -> "SyncNames":
        """What `items` gave."""
        names = cls()
        names._said, names._since_named, repeated, lacking, namings, unnamed = items
        names._repeated = dict(repeated)
        names._lacking = dict.fromkeys(lacking)
        names._namings = dict(namings)
        names._unnamed = {one[0]: (one[1], one[2], one[3]) for one in unnamed}
        return names

    def _name(self, message_id: str, writer_id: str, times: int) -> None:
        """It is still to be named so often, by messages after the next one of ours."""
        # Those that were never named need the room more.
        if times == _TIMES or (times and len(self._unnamed) < _MOST_UNNAMED // 2):
            self._unnamed[message_id] = (writer_id, self._said, times)
            if len(self._unnamed) > _MOST_UNNAMED:
                del self._unnamed[next(iter(self._unnamed))]
