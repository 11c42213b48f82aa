"""Comparison of two stores, field by field and vector by vector (reference 10.3).

Fields of type L are left out: the order of arrival decides their value, so replicas that hold the same
changes can differ in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from culm_models.chotki.ids import (
    GLOBAL_VECTOR_KEY,
    OBJECT_KEY,
    VECTOR_KEY,
    Id,
    block_of,
    split_object_key,
    split_vector_key,
)
from culm_models.chotki.rdx import merge, parse_vector
from culm_models.chotki.rdx.version_vector import entries_beyond

_LEFT_OUT = ord("L")


class Side(StrEnum):
    """The store that is missing something that the other one has."""

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that differs. A value is None if the store has no such field."""

    id: Id
    letter: str
    ours: bytes | None
    theirs: bytes | None
    missing_in: Side


@dataclass(frozen=True, slots=True)
class VectorDifference:
    """The entries that each of two vectors is missing, as source to the progress in the other vector."""

    missing_in_ours: Mapping[int, int]
    missing_in_theirs: Mapping[int, int]

    def __bool__(self) -> bool:
        return bool(self.missing_in_ours or self.missing_in_theirs)


@dataclass(slots=True)
class ReplicaBlockDifference:
    """The differences within one block."""

    block: Id
    vector: VectorDifference = field(default_factory=lambda: VectorDifference({}, {}))
    fields: list[FieldDifference] = field(default_factory=list)

    def missing_count(self, side: Side) -> int:
        """Return the number of fields in which a side is missing something."""
        return sum(difference.missing_in in (side, Side.BOTH) for difference in self.fields)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences. `compared`: fields of either store; `left_out`: fields of type L in addition."""

    vector: VectorDifference
    blocks: list[ReplicaBlockDifference]
    compared: int
    left_out: int

    @property
    def are_equal(self) -> bool:
        """Whether vectors and fields are equal."""
        return not self.vector and not self.blocks


def compare(ours: Mapping[bytes, bytes], theirs: Mapping[bytes, bytes]) -> Comparison:
    """Compare two stores, key to value."""
    blocks: dict[Id, ReplicaBlockDifference] = {}
    compared = left_out = 0
    for key in sorted(ours.keys() | theirs.keys()):
        own, their = ours.get(key), theirs.get(key)
        if key[0] == OBJECT_KEY:
            if key[17] == _LEFT_OUT:
                left_out += 1
                continue
            compared += 1
            if own != their and (difference := _field_difference(key, own, their)) is not None:
                _of_block(blocks, block_of(difference.id)).fields.append(difference)
        elif key[0] == VECTOR_KEY and (block := split_vector_key(key)) is not None:
            differs = vector_difference(own or b"", their or b"")
            if differs:
                _of_block(blocks, block).vector = differs
    whole = vector_difference(ours.get(GLOBAL_VECTOR_KEY, b""), theirs.get(GLOBAL_VECTOR_KEY, b""))
    return Comparison(whole, [blocks[block] for block in sorted(blocks)], compared, left_out)


def vector_difference(ours: bytes, theirs: bytes) -> VectorDifference:
    """Return the entries that each of two vectors (TLV) is missing."""
    own, their = parse_vector(ours), parse_vector(theirs)
    return VectorDifference(
        dict(sorted(entries_beyond(their, own).items())), dict(sorted(entries_beyond(own, their).items()))
    )


def _of_block(blocks: dict[Id, ReplicaBlockDifference], block: Id) -> ReplicaBlockDifference:
    return blocks.setdefault(block, ReplicaBlockDifference(block))


def _field_difference(key: bytes, ours: bytes | None, theirs: bytes | None) -> FieldDifference | None:
    """Describe how a field differs. Returns None if only the bytes differ and a merge makes them equal."""
    id, letter = split_object_key(key)
    if ours is None or theirs is None:
        return FieldDifference(id, letter, ours, theirs, Side.OURS if ours is None else Side.THEIRS)
    plain_ours, plain_theirs = merge(letter, [ours]), merge(letter, [theirs])
    if plain_ours == plain_theirs:
        return None
    merged = merge(letter, [ours, theirs])
    # An object has one class: if there are two, no merge says which is right.
    if letter in "OY" or merged not in (plain_ours, plain_theirs):
        missing_in = Side.BOTH
    else:
        missing_in = Side.THEIRS if merged == plain_ours else Side.OURS
    return FieldDifference(id, letter, ours, theirs, missing_in)
