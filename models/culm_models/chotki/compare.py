"""Two stores compared field by field and vector by vector (reference 10.3).

L is left out: the order of arrival decides its value, so replicas that hold the same differ in it.
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
    """Who lacks something that the other has."""

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that is not the same. A value is None where the store has no such field."""

    id: Id
    letter: str
    ours: bytes | None
    theirs: bytes | None
    lacks: Side


@dataclass(frozen=True, slots=True)
class VectorDifference:
    """Of two vectors, what each lacks: source to the progress that the other one has."""

    ours_lacks: Mapping[int, int]
    theirs_lacks: Mapping[int, int]

    def __bool__(self) -> bool:
        return bool(self.ours_lacks or self.theirs_lacks)


@dataclass(slots=True)
class BlockDifference:
    """What is not the same in one block."""

    block: Id
    vector: VectorDifference = field(default_factory=lambda: VectorDifference({}, {}))
    fields: list[FieldDifference] = field(default_factory=list)

    def lacking(self, side: Side) -> int:
        """In how many fields a side lacks something."""
        return sum(one.lacks in (side, Side.BOTH) for one in self.fields)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is not the same. `compared`: fields of either store; `left_out`: those of type L beside them."""

    vector: VectorDifference
    blocks: list[BlockDifference]
    compared: int
    left_out: int

    @property
    def are_equal(self) -> bool:
        """Whether vectors and fields are the same."""
        return not self.vector and not self.blocks


def compare(ours: Mapping[bytes, bytes], theirs: Mapping[bytes, bytes]) -> Comparison:
    """Compare two stores, key to value."""
    blocks: dict[Id, BlockDifference] = {}
    compared = left_out = 0
    for key in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(key), theirs.get(key)
        if key[0] == OBJECT_KEY:
            if key[17] == _LEFT_OUT:
                left_out += 1
                continue
            compared += 1
            if one != other and (found := _field_difference(key, one, other)) is not None:
                _of_block(blocks, block_of(found.id)).fields.append(found)
        elif key[0] == VECTOR_KEY and (block := split_vector_key(key)) is not None:
            differs = vector_difference(one or b"", other or b"")
            if differs:
                _of_block(blocks, block).vector = differs
    whole = vector_difference(ours.get(GLOBAL_VECTOR_KEY, b""), theirs.get(GLOBAL_VECTOR_KEY, b""))
    return Comparison(whole, [blocks[block] for block in sorted(blocks)], compared, left_out)


def vector_difference(ours: bytes, theirs: bytes) -> VectorDifference:
    """What each of two vectors (TLV) lacks."""
    one, other = parse_vector(ours), parse_vector(theirs)
    return VectorDifference(
        dict(sorted(entries_beyond(other, one).items())), dict(sorted(entries_beyond(one, other).items()))
    )


def _of_block(blocks: dict[Id, BlockDifference], block: Id) -> BlockDifference:
    return blocks.setdefault(block, BlockDifference(block))


def _field_difference(key: bytes, ours: bytes | None, theirs: bytes | None) -> FieldDifference | None:
    """How a field differs; None where only the bytes do, and a merge makes them the same."""
    id, letter = split_object_key(key)
    if ours is None or theirs is None:
        return FieldDifference(id, letter, ours, theirs, Side.OURS if ours is None else Side.THEIRS)
    plain_ours, plain_theirs = merge(letter, [ours]), merge(letter, [theirs])
    if plain_ours == plain_theirs:
        return None
    merged = merge(letter, [ours, theirs])
    # An object has one class: where there are two, no merge says which is right.
    if letter in "OY" or merged not in (plain_ours, plain_theirs):
        lacks = Side.BOTH
    else:
        lacks = Side.THEIRS if merged == plain_ours else Side.OURS
    return FieldDifference(id, letter, ours, theirs, lacks)
