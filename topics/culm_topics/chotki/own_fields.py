"""A source's own changes that no epoch may contain yet, on top of the known state (reference 9.2 rule 10).

Merging a change twice has no effect, so it is kept until an applied epoch contains it. The exception is an L,
which grows.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from culm_models.chotki.ids import Id, split_object_key
from culm_models.chotki.packets.live import LivePacket
from culm_models.chotki.rdx import merge
from culm_topics.chotki.global_names import GlobalNames
from culm_topics.chotki.objects import (
    NAMES_OBJECT,
    NAMES_PLACE,
    FieldSource,
    Place,
    class_id_among,
    object_of,
)

_LEAST_BYTES: Final = 4_096


class _Own:
    """Own operands of a field, in order, each with the progress of its packet."""

    __slots__ = ("_below", "_bytes", "_merged", "_value", "operands")

    def __init__(self) -> None:
        self.operands: deque[tuple[int, bytes]] = deque()
        self._merged = self._bytes = 0
        self._below: bytes | None = None
        self._value: bytes | None = None

    def add(self, pro: int, letter: str, operand: bytes) -> None:
        """Add an operand; they are merged with each other whenever their length has doubled."""
        self._value = None
        self.operands.append((pro, operand))
        self._bytes += len(operand)
        if self._bytes > 2 * self._merged + _LEAST_BYTES:
            merged = merge(letter, [added for _, added in self.operands])
            self.operands = deque([(pro, merged)])
            self._merged = self._bytes = len(merged)

    def settle(self, pro: int) -> None:
        """Drop operands up to this progress."""
        while self.operands and self.operands[0][0] <= pro:
            self._value = None
            self._bytes -= len(self.operands.popleft()[1])

    def on(self, letter: str, below: bytes | None) -> bytes:
        """Return the field's value with the operands; cached, because it may be long and changes seldom."""
        if self._value is None or self._below is not below:
            self._below = below
            operands = [operand for _, operand in self.operands]
            self._value = merge(letter, operands if below is None else [below, *operands])
        return self._value


class OwnFields:
    """A `FieldSource` with own operands on top of another one.

    `waiting` counts the packets that were taken and are not settled.
    """

    def __init__(self, below: FieldSource) -> None:
        self._below = below
        self._own: dict[Id, dict[Place, _Own]] = {}
        self._order: deque[tuple[int, Id, Place]] = deque()
        self._packets: deque[int] = deque()
        self._names: GlobalNames | None = None

    @property
    def waiting(self) -> int:
        """Number of packets that the source below may not contain yet."""
        return len(self._packets)

    def fields(self, id: Id) -> Mapping[Place, bytes]:
        """Return the fields of an object, own operands merged."""
        below = self._below.fields(id)
        own = self._own.get(id)
        if own is None:
            return below
        return {
            **below,
            **{
                position: own_field.on(position[1], below.get(position))
                for position, own_field in own.items()
            },
        }

    def ids(self, class_id: Id | None = None) -> Iterator[Id]:
        """Return the objects of a class, or every object and class, by ID."""
        made = self._made(lambda fields: class_id is None or class_id_among(fields) == class_id)
        return heapq.merge(self._below.ids(class_id), made)

    def class_ids(self) -> Iterator[Id]:
        """Return every class, by ID."""
        return heapq.merge(self._below.class_ids(), self._made(lambda fields: (0, "C") in fields))

    def _made(self, wanted: Callable[[Mapping[Place, bytes]], bool]) -> list[Id]:
        """Return the matching IDs that are not below."""
        return sorted(id for id in self._own if not self._below.fields(id) and wanted(self.fields(id)))

    def names(self) -> GlobalNames:
        """Return the present global names."""
        below = self._below.names()
        if self._names is None:
            self._names = GlobalNames(below=below)
            own = self._own.get(NAMES_OBJECT, {}).get(NAMES_PLACE)
            for _, operand in own.operands if own is not None else ():
                self._names.merge(operand)
        self._names.below = below
        return self._names

    def take(self, live: LivePacket) -> None:
        """Add a packet, in the order of its source."""
        self._packets.append(live.id.pro)
        for key, operand in live.writes:
            at, letter = split_object_key(key)
            id, position = object_of(at), (at.off, letter)
            self._own.setdefault(id, {}).setdefault(position, _Own()).add(live.id.pro, letter, operand)
            self._order.append((live.id.pro, id, position))
            if self._names is not None and (id, position) == (NAMES_OBJECT, NAMES_PLACE):
                self._names.merge(operand)

    def settle(self, pro: int) -> None:
        """Drop everything of the source up to this progress, which the source below contains."""
        while self._packets and self._packets[0] <= pro:
            self._packets.popleft()
        while self._order and self._order[0][0] <= pro:
            _, id, position = self._order.popleft()
            own = self._own.get(id, {})
            if position not in own:
                continue
            own[position].settle(pro)
            if not own[position].operands:
                del own[position]
                if not own:
                    del self._own[id]
            if (id, position) == (NAMES_OBJECT, NAMES_PLACE):
                self._names = None
