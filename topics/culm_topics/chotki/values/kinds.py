"""What sets, maps and bytes that do not parse are in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from culm_topics.chotki.values.scalars import Part, Scalar, part_of


class Elements(tuple[Scalar, ...]):
    """The elements of an E in stored order; `removed`: those that were there once."""

    removed: tuple[Scalar, ...]

    def __new__(cls, present: Iterable[Scalar] = (), removed: Iterable[Scalar] = ()) -> Elements:
        """A set of these elements."""
        made = super().__new__(cls, present)
        made.removed = tuple(removed)
        return made


class Pairs(MutableMapping[Scalar, Scalar]):
    """The pairs of an M; `removed`: keys whose pairs were removed.

    Keys keep their types: the integer 1, the float 1.0, the string "1" and the term 1 are four keys, where a
    dictionary has one for the first two. Change a `copy`, not a dictionary made of it.
    """

    def __init__(
        self,
        present: Mapping[Scalar, Scalar] | Iterable[tuple[Scalar, Scalar]] = (),
        removed: Iterable[Scalar] = (),
    ) -> None:
        self.removed = tuple(removed)
        self._pairs: dict[Part, tuple[Scalar, Scalar]] = {}
        for key, value in present.items() if isinstance(present, Mapping) else present:
            self[key] = value

    def copy(self) -> Pairs:
        """The same pairs, to be changed."""
        return Pairs(self, self.removed)

    def __getitem__(self, key: Scalar) -> Scalar:
        return self._pairs[_key(key)][1]

    def __setitem__(self, key: Scalar, value: Scalar) -> None:
        self._pairs[part_of(key)] = key, value

    def __delitem__(self, key: Scalar) -> None:
        del self._pairs[_key(key)]

    def __iter__(self) -> Iterator[Scalar]:
        return (key for key, _ in self._pairs.values())

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return parts_of(self) == parts_of(other)
        except (TypeError, ValueError):
            return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pairs = ", ".join(f"{key!r}: {value!r}" for key, value in self._pairs.values())
        return f"Pairs({{{pairs}}}, removed={self.removed!r})"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that do not parse as the type of their field."""

    raw: bytes


Value = Scalar | Elements | Pairs | dict[int, int] | tuple[Scalar, ...] | Unreadable


def _key(value: object) -> Part:
    """The part of a key; `KeyError` for what can be none."""
    try:
        return part_of(value)
    except (TypeError, ValueError) as error:
        raise KeyError(value) from error


def parts_of(value: Mapping[Any, Any]) -> dict[Part, Part]:
    """The pairs of a mapping as they are written. Raises `TypeError`, `ValueError` where no M has them."""
    return {part_of(key): part_of(one) for key, one in value.items()}
