"""The ids that came into the log last, in that order, to see which of them another participant lacks.

A message may come late and belong far back in the log, where no causal history names it any more. Whoever
lacks it then hears of it from nobody, unless those who have it look: a filter holds every id that its sender
took lately, so an id which is not in it is one that the sender has not got, or got long ago.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain, islice
from typing import Final

from culm_models.sds.bloom import LAYOUTS, HashPair, LayoutName, ReceivedFilter

_MOST: Final = 512


class Recent:
    """At most 512 ids of the log, and no more than a filter of the channel always holds."""

    __slots__ = ("_ids", "_kind", "_most")

    def __init__(self, layout: LayoutName, held: int) -> None:
        """`held`: the newest ids that every filter of the channel holds."""
        self._kind = LAYOUTS[layout]
        self._most = min(_MOST, held)
        # With their hashes, when they have been asked for.
        self._ids: OrderedDict[str, HashPair | None] = OrderedDict()

    def add(self, message_id: str) -> None:
        """An id has come into the log."""
        self._ids[message_id] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)

    def extend(self, message_ids: Iterable[str]) -> None:
        """Several, in their order."""
        for message_id in message_ids:
            self.add(message_id)

    def drop(self, message_id: str) -> None:
        """An id has left the log."""
        self._ids.pop(message_id, None)

    def ids(self) -> list[str]:
        """The ids, oldest first."""
        return list(self._ids)

    def absent(self, found: ReceivedFilter, *, but: int = 0) -> list[str]:
        """Those that are not in a filter, oldest first; the newest `but` of them are not looked at."""
        asked = list(islice(self._ids, max(len(self._ids) - but, 0)))
        pairs = array(self._kind.pair_code, chain.from_iterable(map(self._pair, asked)))
        return [asked[place] for place in found.absent(pairs)]

    def _pair(self, message_id: str) -> HashPair:
        pair = self._ids[message_id]
        if pair is None:
            pair = self._ids[message_id] = self._kind.hash_pair(message_id)
        return pair
