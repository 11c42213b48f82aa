"""The ids that came into the log last, in that order, to see which of them another participant lacks.

A message may come late and belong far back in the log, where no causal history names it any more. Whoever
lacks it then hears of it from nobody, unless those who have it look: a filter holds every id that its sender
took lately, so an id which is not in it is one that the sender has not got, or got long ago.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from culm_models.sds.bloom import LAYOUTS, LayoutName, ReceivedFilter

_MOST: Final = 512


class Recent:
    """At most 512 ids of the log, and no more than a filter of the channel always holds."""

    __slots__ = ("_gone", "_held", "_ids", "_kind", "_most", "_pairs")

    def __init__(self, layout: LayoutName, held: int) -> None:
        """`held`: the newest ids that every filter of the channel holds."""
        self._kind = LAYOUTS[layout]
        self._most = min(_MOST, held)
        # With some at the front that have gone already, so that not every new one moves all others.
        self._ids: list[str] = []
        self._gone = 0
        self._held: set[str] = set()
        # Of the first ids, as far as they have been asked for.
        self._pairs = array(self._kind.pair_code)

    @property
    def most(self) -> int:
        """How many ids there can be."""
        return self._most

    def add(self, message_id: str) -> None:
        """An id has come into the log."""
        self._ids.append(message_id)
        self._held.add(message_id)
        if len(self._ids) - self._gone > self._most:
            self._held.remove(self._ids[self._gone])
            self._gone += 1
            if self._gone > self._most:
                del self._ids[: self._gone]
                del self._pairs[: 2 * self._gone]
                self._gone = 0

    def extend(self, message_ids: Iterable[str]) -> None:
        """Several, in their order."""
        for message_id in message_ids:
            self.add(message_id)

    def drop(self, message_id: str) -> None:
        """An id has left the log."""
        if message_id in self._held:
            place = self._ids.index(message_id, self._gone)
            self._held.remove(message_id)
            del self._ids[place]
            del self._pairs[2 * place : 2 * place + 2]

    def ids(self) -> list[str]:
        """The ids, oldest first."""
        return self._ids[self._gone :]

    def absent(self, found: ReceivedFilter, *, but: int = 0) -> list[str]:
        """Those that are not in a filter, oldest first; the newest `but` of them are not looked at."""
        for message_id in self._ids[len(self._pairs) // 2 :]:
            self._pairs.extend(self._kind.hash_pair(message_id))
        first, end = self._gone, max(len(self._ids) - but, self._gone)
        return [self._ids[first + place] for place in found.absent(self._pairs[2 * first : 2 * end])]
