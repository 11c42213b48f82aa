"""Ids by the sender that named them, so that one sender's invented ids do not take what others need.

Sender ids are not signed: whoever invents those too has as many shares.
"""

from collections.abc import Iterable
from typing import Self

from culm_models.sds.timer_queue import TimerQueue


class Namers:
    """The sender that each id is counted for."""

    __slots__ = ("_ids", "_namers", "_sizes")

    def __init__(self) -> None:
        self._namers: dict[str, str] = {}
        self._ids: dict[str, dict[str, None]] = {}
        # Namers by how many ids they have: the one with the most is the first.
        self._sizes = TimerQueue()

    def add(self, message_id: str, namer_id: str) -> None:
        """Count an id that is not here for this namer."""
        self._namers[message_id] = namer_id
        self._ids.setdefault(namer_id, {})[message_id] = None
        self._resize(namer_id)

    def drop(self, message_id: str) -> None:
        """Count an id no longer; it need not be here."""
        namer_id = self._namers.pop(message_id, None)
        if namer_id is not None:
            del self._ids[namer_id][message_id]
            self._resize(namer_id)

    def share(self, message_id: str, namer_id: str) -> None:
        """Another sender names an id too: it is counted for whoever has fewer. It need not be here."""
        present_id = self._namers.get(message_id)
        if present_id is not None and self.count(namer_id) + 1 < self.count(present_id):
            self.drop(message_id)
            self.add(message_id, namer_id)

    def namer_of(self, message_id: str) -> str:
        """The sender that an id which is here is counted for."""
        return self._namers[message_id]

    def count(self, namer_id: str) -> int:
        """Returns how many ids are counted for a sender."""
        return len(self._ids.get(namer_id, ()))

    def surplus(self, namer_id: str) -> str | None:
        """The newest id of the sender that has the most, to give way to one more of `namer_id`.

        None where that sender has no more than `namer_id` would have.
        """
        largest = self._sizes.first()
        if largest is None or self.count(largest[1]) <= self.count(namer_id) + 1:
            return None
        return next(reversed(self._ids[largest[1]]))

    def items(self) -> list[tuple[str, list[str]]]:
        """The ids of each sender, for `restored`."""
        return [(namer_id, list(ids)) for namer_id, ids in self._ids.items()]

    @classmethod
    def restored(cls, items: Iterable[tuple[str, Iterable[str]]]) -> Self:
        """What `items` gave."""
        namers = cls()
        for namer_id, message_ids in items:
            for message_id in message_ids:
                namers.add(message_id, namer_id)
        return namers

    def _resize(self, namer_id: str) -> None:
        size = len(self._ids[namer_id])
        if size:
            self._sizes.put(namer_id, -size, 0)
        else:
            self._sizes.drop(namer_id)
            del self._ids[namer_id]
