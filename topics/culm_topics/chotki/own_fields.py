"""What a source has said and no epoch may have yet, on top of what is known (reference 9.2 rule 10).

Merging it twice changes nothing, so it stays until an epoch that counts has it; but for an L, which grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from culm_models.chotki.ids import Id, split_object_key
from culm_models.chotki.packets.live import LivePacket
from culm_models.chotki.rdx import merge
from culm_topics.chotki.objects import FieldSource, Place, object_of


@dataclass(slots=True)
class _Own:
    """Own operands of a field, merged, the last of them of `pro`; what `below` became by them."""

    pro: int
    operand: bytes
    below: bytes | None = None
    merged: bytes | None = None

    def on(self, letter: str, below: bytes | None) -> bytes:
        """The field's value with them; asked for often, changed seldom, and long where it is a map."""
        if self.merged is None or self.below is not below:
            self.below = below
            self.merged = merge(letter, [self.operand] if below is None else [below, self.operand])
        return self.merged


class OwnFields:
    """A `FieldSource` with own operands on top of another one."""

    def __init__(self, below: FieldSource) -> None:
        self._below = below
        self._own: dict[Id, dict[Place, _Own]] = {}
        self._order: deque[tuple[int, Id, Place]] = deque()

    def fields(self, id: Id) -> Mapping[Place, bytes]:
        """See `FieldSource`."""
        below = self._below.fields(id)
        own = self._own.get(id)
        if own is None:
            return below
        return {**below, **{place: one.on(place[1], below.get(place)) for place, one in own.items()}}

    def ids(self) -> Iterator[Id]:
        """See `FieldSource`."""
        yield from self._below.ids()
        for id in self._own:
            if not self._below.fields(id):
                yield id

    def take(self, live: LivePacket) -> None:
        """A packet, in the order of its source."""
        for key, operand in live.writes:
            at, letter = split_object_key(key)
            id, place = object_of(at), (at.off, letter)
            own = self._own.setdefault(id, {})
            former = [own[place].operand] if place in own else []
            own[place] = _Own(live.id.pro, merge(letter, [*former, operand]))
            self._order.append((live.id.pro, id, place))

    def settle(self, pro: int) -> None:
        """What is below has everything of the source up to this progress."""
        while self._order and self._order[0][0] <= pro:
            at, id, place = self._order.popleft()
            own = self._own.get(id, {})
            if place in own and own[place].pro == at:
                del own[place]
                if not own:
                    del self._own[id]
