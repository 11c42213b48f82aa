"""A replica of a simulation, and its user, who changes classes, objects, and fields of every type.

The user never changes a field of type L, which has no merge, and never writes a second value with the same
stamp if the merge distinguishes values by stamp.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.events import SessionRefused
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.handshake import MODE_MAX
from culm_models.chotki.replica import Committed, Output, Replica
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_int, pack_pair, zigzag
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import SimulatedNode

TYPES: Final = "FIRSTNZEMV"
"""The types of the fields of every object, in order from 1 on."""
_BLOCK_SEQUENCES: Final = 1 << 16
_OFFSET_BITS: Final = 12
_MAY_BE_REFUSED: Final = frozenset(
    {
        "chotki.sync_unknown",  # another replica's sync was in progress when the session began
        "chotki.sync_count",
        "chotki.sync_expired",
        "chotki.handshake_timeout",
        "chotki.ping_timeout",
        "chotki.deaf",
    }
)


@dataclass(slots=True)
class Catalogue:
    """All classes and objects that were ever created, at any replica."""

    classes: list[Id] = field(default_factory=list)
    objects: list[Id] = field(default_factory=list)


class ChotkiNode(SimulatedNode):
    """A replica and its user. After a restart, it has its store and no sessions.

    `refused` counts the codes with which sessions ended.
    """

    def __init__(self, number: int, settings: ChotkiSettings, compat: Compat, rng: random.Random) -> None:
        super().__init__()
        self.number = number
        self.refused: Counter[str] = Counter()
        self.modes: dict[str, int] = {}
        """Mode of the next session with each other replica."""
        self._settings = settings
        self._compat = compat
        self._rng = rng
        self._revision = 0
        self._counts: dict[tuple[Id, int], int] = {}
        # Sources of one, two and eight bytes.
        self.src = rng.choice((0xA0, 0x4000, 1 << 40)) + number
        self.replica = self._begin(None)

    def _begin(self, store: MemoryStore | None) -> Replica:
        return Replica(
            self.src,
            store,
            name=f"node {self.number}",
            settings=self._settings,
            compat=self._compat,
            seed=self._rng.getrandbits(32),
        )

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        """Process a piece of a session's stream."""
        self._take(self.replica.receive(sender, data, now_ms))

    def tick(self, now_ms: int) -> None:
        """Do the work that is due."""
        self._take(self.replica.tick(now_ms))

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Open a session."""
        self._take(self.replica.open_session(other, now_ms, mode=self.modes.get(other, MODE_MAX)))

    def disconnected(self, other: str, now_ms: int) -> None:
        """End the session whose transport is gone."""
        session = self.replica.sessions.get(other)
        if session is not None and not session.closed:
            self.replica.lose_session(other, now_ms)

    def _take(self, output: Output) -> None:
        for name, event in output.events:
            if isinstance(event, SessionRefused):
                self.refused[event.code] += 1
                if event.code not in _MAY_BE_REFUSED:
                    raise InvariantError(f"node {self.number} refused {name}: {event.message}")
        self.queued += [(name, b"".join(records)) for name, records in output.sends.items() if records]
        self.queued += [(name, b"") for name in output.closed]

    def restart(self) -> None:
        """Restart with the store and without sessions."""
        self.replica = self._begin(MemoryStore(self.replica.store.values()))

    def leap(self) -> None:
        """Raise the counter so that the next id is among the first of another block."""
        seq = self.replica.last_id.seq // _BLOCK_SEQUENCES * _BLOCK_SEQUENCES
        self.replica.raise_counter(seq + _BLOCK_SEQUENCES + self._rng.randint(-2, 0) << _OFFSET_BITS)

    def change(self, catalogue: Catalogue, now_ms: int) -> Committed:
        """Make one random change of a kind that is possible."""
        rng = self._rng
        kind = rng.random()
        if not catalogue.classes or kind < 0.03:
            committed = self.replica.commit("C", ZERO_ID, self._entries(TYPES), now_ms)
            catalogue.classes.append(committed.id)
        elif kind < 0.06:
            letter = rng.choice(TYPES)
            committed = self.replica.commit("C", rng.choice(catalogue.classes), self._entries(letter), now_ms)
        elif not catalogue.objects or kind < 0.3:
            id = Id.make(self.src, self.replica.last_id.seq + 1)
            count = rng.randint(1, len(TYPES))
            body = b"".join(self._value(id, number) for number in range(1, count + 1))
            committed = self.replica.commit("O", rng.choice(catalogue.classes), body, now_ms)
            assert committed.id == id, "the counter gives the next id"
            catalogue.objects.append(id)
        else:
            # Also of objects that have not arrived here yet.
            target = rng.choice(catalogue.objects)
            body = b""
            for _ in range(rng.choice((1, 1, 3))):
                number = rng.randint(1, len(TYPES))
                body += record(rng.choice("fF"), bytes([number])) + self._value(target, number)
            committed = self.replica.commit("E", target, body, now_ms)
        self._take(committed.output)
        return committed

    def _entries(self, letters: str) -> bytes:
        return b"".join(
            record("T", _stamp(number), f"{letter}\0{self.number} {self._rng.randrange(3)}".encode())
            for number, letter in enumerate(letters, 1)
        )

    def _value(self, target: Id, number: int) -> bytes:
        """Return a record to merge into a field of an object."""
        letter = TYPES[number - 1]
        self._revision += 1
        return record(letter, self._MAKERS[letter](self, target, number))

    def _register(self, target: Id, number: int) -> bytes:
        letter, rng = TYPES[number - 1], self._rng
        value = {
            "F": rng.choice((b"", b"\xfc\x0f", b"\x02\x20")),
            "I": pack_int(rng.choice((0, 1, -1, 256, -(1 << 63)))),
            "R": target.zip(),
        }.get(letter, rng.choice(("", "one", "zwei", "три")).encode())
        return _stamp(rng.randrange(6)) + value

    def _natural(self, target: Id, number: int) -> bytes:
        count = self._counts[target, number] = self._counts.get((target, number), 0) + self._rng.randint(
            1, 400
        )
        return record("T", record("t", pack_pair(count, self.src)))

    def _counter(self, target: Id, number: int) -> bytes:
        stamp = record("t", pack_pair(zigzag(self._revision), self.src))
        return record("I", stamp, pack_int(self._rng.randint(-300, 300)))

    def _set(self, target: Id, number: int) -> bytes:
        chosen = sorted(self._rng.sample(("", "a", "ab", "b", "ß"), self._rng.randint(1, 3)))
        sign = self._rng.choice((1, 1, -1))
        return b"".join(record("S", _stamp(sign * self._revision), text.encode()) for text in chosen)

    def _map(self, target: Id, number: int) -> bytes:
        pairs = b""
        for key in sorted(self._rng.sample(("", "a", "ab", "b", "ß"), self._rng.randint(1, 3))):
            value = self._rng.choice(("", "v", "other"))
            stamp = _stamp(self._revision)
            pairs += record("S", stamp, key.encode()) + record("S", stamp, value.encode())
        return pairs

    def _vector(self, target: Id, number: int) -> bytes:
        return record("V", pack_pair(self._rng.randrange(5), self._rng.randrange(1 << 30)))

    _MAKERS: Final[dict[str, Callable[[ChotkiNode, Id, int], bytes]]] = {
        **dict.fromkeys("FIRST", _register),
        "N": _natural,
        "Z": _counter,
        "E": _set,
        "M": _map,
        "V": _vector,
    }


def _stamp(revision: int) -> bytes:
    """Return a stamp that names no source."""
    return record("t", pack_pair(zigzag(revision), 0))
