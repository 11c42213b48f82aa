"""Frozen records made by their plain twin are the records that their own constructor makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import pytest

from culm_models.frozen import unfrozen


@dataclass(frozen=True, slots=True)
class Base:
    first: int


@dataclass(frozen=True, slots=True)
class Derived(Base):
    second: str
    third: bytes | None = None


@pytest.mark.parametrize(
    ("record", "values"), [(Base, (1,)), (Derived, (1, "two", None)), (Derived, (2, "", b"3"))]
)
def test_a_twin_becomes_the_record(record: type, values: tuple[object, ...]) -> None:
    made = unfrozen(record)(*values)
    made.__class__ = record
    expected = record(*values)
    assert (made, hash(made), repr(made)) == (expected, hash(expected), repr(expected))
    with pytest.raises(FrozenInstanceError):
        made.first = 5
