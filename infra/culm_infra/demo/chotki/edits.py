"""The replicas of the demo of Chotki, and their random changes of every type.

Three replicas each make a round of changes before any of them receives the others': these are concurrent.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_models.chotki.ids import ZERO_ID, Id, object_key
from culm_models.chotki.rdx import delta, parse_text, print_text, write_class
from culm_models.chotki.rdx.classes import ClassField
from culm_models.chotki.rdx.diff import counter_sum, natural_sum
from culm_models.chotki.rdx.first import write_element, write_first
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_uint

EDGES: Final = ("west", "east")
Scheme = Literal["tcp", "tls", "quic"]
SCHEMES_OF: Final[tuple[tuple[Scheme, ...], ...]] = (("tcp", "quic"), ("tcp", "tls"))
"""Schemes on which each edge listens."""

LETTERS: Final = "FIRSTNZEMLV"
"""Types of the fields, in the order of the recorded class; field numbers begin with 1."""
_NAMES: Final = ("Float", "Int", "Ref", "Str", "Term", "Nat", "Cnt", "Eul", "Map", "Lin", "Vec")
CLASS: Final = tuple(
    ClassField(offset, letter, name)
    for offset, (letter, name) in enumerate(zip(LETTERS, _NAMES, strict=True), 1)
)

RECORDED_SOURCE: Final = 0xB
RECORDED_OBJECTS: Final = tuple(Id.make(RECORDED_SOURCE, seq) for seq in (2, 3, 4))


@dataclass(frozen=True, slots=True)
class ReplicaRole:
    """One replica: its source, its edge and its transport."""

    name: str
    src: int
    edge: int
    scheme: Scheme


ROLES: Final = (
    ReplicaRole("ada", 0xADA, 0, "tcp"),
    ReplicaRole("ben", 0xBE4, 1, "tls"),
    ReplicaRole("cem", 0xCE3, 0, "quic"),
)
RECORDED_ROLE: Final = ReplicaRole("go, recorded", RECORDED_SOURCE, 0, "tcp")


_WORDS: Final = ("ebb", "flood", "neap", "spring", "slack", "rip", "swell", "surge")
_MAX_ADDED: Final = 9


@dataclass(slots=True)
class Editor:
    """Makes the changes of one replica through `peer`.

    `made` counts changes by type, `committed_s` is the time of each change. `added` is the sum of its
    increments of each counter (N and Z), by store key.
    """

    name: str
    peer: ReplicaPeer
    chance: random.Random
    made: Counter[str] = field(default_factory=Counter)
    committed_s: dict[Id, float] = field(default_factory=dict)
    added: Counter[bytes] = field(default_factory=Counter)

    def new_class(self) -> Id:
        """Make the class of all objects (C)."""
        return self._commit("C", ZERO_ID, write_class(CLASS))

    def rename(self, class_id: Id) -> None:
        """Rename the class's fourth field (C)."""
        self._commit("C", class_id, write_class([ClassField(4, "S", f"Words of {self.name}")]))

    def new_object(self, class_id: Id) -> Id:
        """Make an object whose fields all have a first value (O)."""
        body = b"".join(record(letter, self._first_value(letter)) for letter in LETTERS)
        return self._commit("O", class_id, body)

    def new_replica_object(self) -> None:
        """Make one more replica object with the replica's name (Y)."""
        body = record("S", write_first(0, 0, f"{self.name} again".encode())) + record("V")
        self._commit("Y", ZERO_ID, body)

    def edit_every_type(self, objects: Sequence[Id]) -> None:
        """Change one field of each type, in randomly chosen objects (E). The replica must hold them."""
        for letter in LETTERS:
            self.edit(self.chance.choice(objects), letter)

    def edit(self, id: Id, letter: str) -> None:
        """Change an object's field of a type (E)."""
        number = LETTERS.index(letter) + 1
        key = object_key(Id(id.src, id.pro + number), letter)
        old = self.peer.replica.store.get(key) or b""
        operand = self._operand(letter, key, old)
        if operand:
            self._commit("E", id, record("f", pack_uint(number)) + record(letter, operand), letter)

    def _commit(self, letter: str, ref: Id, body: bytes, counted_as: str | None = None) -> Id:
        self.made[counted_as or letter] += 1
        committed_s = time.monotonic()
        id = self.peer.commit(letter, ref, body)
        self.committed_s[id] = committed_s
        return id

    def _operand(self, letter: str, key: bytes, old: bytes) -> bytes:
        if letter == "L":
            return write_element(ord("S"), 0, 0, self._word().encode())
        if letter in "NZ":
            more = self.chance.randint(1, _MAX_ADDED)
            if letter == "Z":
                more *= self.chance.choice((1, -1))
            total = (natural_sum(old) if letter == "N" else counter_sum(old)) + more
            self.added[key] += more
            return delta(letter, old, parse_text(letter, str(total)), src=self.peer.replica.src)
        new = parse_text(letter, _DRAWN[letter](self, old))
        return delta(letter, old, new, src=self.peer.replica.src)

    def _first_value(self, letter: str) -> bytes:
        return b"" if letter in "NZEMLV" else parse_text(letter, _DRAWN[letter](self, b""))

    def _word(self) -> str:
        return f"{self.chance.choice(_WORDS)}{self.chance.randrange(100)}"

    # A text for each type; the texts of sets, maps and vectors are the old ones with a change.

    def _float(self, _: bytes) -> str:
        return f"{self.chance.randrange(-9_999, 10_000) / 8}"

    def _integer(self, _: bytes) -> str:
        return str(self.chance.randrange(-(10**6), 10**6))

    def _reference(self, _: bytes) -> str:
        return f"{self.peer.replica.src:x}-{self.chance.randrange(1, 0xFFF):x}"

    def _string(self, _: bytes) -> str:
        return f'"{self.name} saw the {self._word()}"'

    def _term(self, _: bytes) -> str:
        return self._word()

    def _set(self, old: bytes) -> str:
        parts = _inside(print_text("E", old)) if old else []
        if len(parts) > 1 and self.chance.random() < 0.4:
            parts.remove(self.chance.choice(parts))
        return "{" + ",".join(dict.fromkeys([*parts, self._word()])) + "}"

    def _map(self, old: bytes) -> str:
        pairs = dict(part.split(":", 1) for part in (_inside(print_text("M", old)) if old else []))
        pairs[f'"{self.chance.choice(_WORDS)}"'] = str(self.chance.randrange(1, 1_000))
        return "{" + ",".join(f"{key}:{value}" for key, value in pairs.items()) + "}"

    def _vector(self, old: bytes) -> str:
        own = f"{self.peer.replica.src:x}-{self.peer.replica.counter >> 12:x}"
        return ",".join(part for part in (print_text("V", old), own) if part)


_DRAWN: Final[dict[str, Callable[[Editor, bytes], str]]] = {
    "F": Editor._float,
    "I": Editor._integer,
    "R": Editor._reference,
    "S": Editor._string,
    "T": Editor._term,
    "E": Editor._set,
    "M": Editor._map,
    "V": Editor._vector,
}


def _inside(text: str) -> list[str]:
    """Return the elements between the braces; generated elements contain no commas."""
    return [part for part in text[1:-1].split(",") if part]
