"""Who takes part in the demo of Chotki, at which edge and over what; and the class that everybody edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from culm_models.chotki.ids import Id
from culm_models.chotki.rdx.classes import ClassField

EDGES: Final = ("west", "east")
Scheme = Literal["tcp", "tls", "quic"]
SCHEMES_OF: Final[tuple[tuple[Scheme, ...], ...]] = (("tcp", "quic"), ("tcp", "tls"))
"""What each edge listens on."""

LETTERS: Final = "FIRSTNZEMLV"
"""The types that fields have, in the order of the recorded class; their numbers begin with 1."""
_NAMES: Final = ("Float", "Int", "Ref", "Str", "Term", "Nat", "Cnt", "Eul", "Map", "Lin", "Vec")
CLASS: Final = tuple(
    ClassField(offset, letter, name)
    for offset, (letter, name) in enumerate(zip(LETTERS, _NAMES, strict=True), 1)
)

RECORDED_SOURCE: Final = 0xB
RECORDED_OBJECTS: Final = tuple(Id.make(RECORDED_SOURCE, seq) for seq in (2, 3, 4))


@dataclass(frozen=True, slots=True)
class Role:
    """One replica: its source, and where it calls."""

    name: str
    src: int
    edge: int
    scheme: Scheme


ROLES: Final = (
    Role("ada", 0xADA, 0, "tcp"),
    Role("ben", 0xBE4, 1, "tls"),
    Role("cem", 0xCE3, 0, "quic"),
)
RECORDED_ROLE: Final = Role("go, recorded", RECORDED_SOURCE, 0, "tcp")
