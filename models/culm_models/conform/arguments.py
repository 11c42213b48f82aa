"""Reader of a request's arguments: bytes as hex, integers also as decimal strings, errors that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from culm_models.errors import ModelError

Chosen = TypeVar("Chosen")
U64_MAX: Final = (1 << 64) - 1
U63_MAX: Final = (1 << 63) - 1
_DIGITS_MAX = 40


class ArgumentError(ModelError, code="conform.argument"):
    """An argument is missing or has the wrong form."""


class RequestError(ModelError, code="conform.request"):
    """A line that is not a JSON object. For DAG replication, also an invalid argument."""


class Arguments:
    """The arguments of one request."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def has(self, name: str) -> bool:
        """Whether the argument is present (null counts as left out)."""
        return self.values.get(name) is not None

    def raw(self, name: str) -> Any:
        """Return the argument as parsed from JSON; it must be present and not null."""
        if not self.has(name):
            raise ArgumentError(f"the argument {name!r} is missing")
        return self.values[name]

    def value(self, name: str) -> Any:
        """Return the argument as parsed from JSON; null is a value as well."""
        if name not in self.values:
            raise ArgumentError(f"the argument {name!r} is missing")
        return self.values[name]

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.raw(name)
        if not isinstance(value, str):
            raise ArgumentError(f"{name} is not a string")
        return value

    def word(self, name: str, choices: Mapping[str, Chosen], *, default: str | None = None) -> Chosen:
        """Return the value that one of several words stands for."""
        if default is not None and not self.has(name):
            return choices[default]
        return as_word(self.raw(name), name, choices)

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        if not self.has(name):
            return default
        value = self.raw(name)
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} is not true or false")
        return value

    def integer(
        self, name: str, *, min_value: int = 0, max_value: int = U64_MAX, default: int | None = None
    ) -> int:
        """Return an integer between ``min_value`` and ``max_value``, which may be given in decimal digits."""
        if default is not None and not self.has(name):
            return default
        return as_integer(self.raw(name), name, min_value=min_value, max_value=max_value)

    def octets(self, name: str, *, size: int | None = None) -> bytes:
        """Return bytes from lower-case hex, exactly ``size`` bytes if it is given."""
        return as_octets(self.raw(name), name, size=size)

    def optional_octets(self, name: str) -> bytes | None:
        """Return bytes from hex, or None if left out."""
        return self.octets(name) if self.has(name) else None

    def optional_integer(self, name: str) -> int | None:
        """Return an integer, or None if left out."""
        return self.integer(name) if self.has(name) else None

    def optional_text(self, name: str) -> str | None:
        """Return a string, or None if left out."""
        return self.text(name) if self.has(name) else None

    def now(self) -> int:
        """Return the time ``now``, in milliseconds."""
        return self.integer("now", max_value=U63_MAX)

    def items(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """Return a list."""
        if default is not None and not self.has(name):
            return default
        value = self.raw(name)
        if not isinstance(value, list):
            raise ArgumentError(f"{name} is not a list")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of strings."""
        values = self.items(name)
        if not all(isinstance(value, str) for value in values):
            raise ArgumentError(f"{name} is not a list of strings")
        return values

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return an object."""
        if default is not None and not self.has(name):
            return default
        return as_mapping(self.raw(name), name)


def as_mapping(value: Any, name: str) -> dict[str, Any]:
    """Return ``value`` as an object."""
    if not isinstance(value, dict):
        raise ArgumentError(f"{name} is not an object")
    return value


def as_word(value: Any, name: str, choices: Mapping[str, Chosen]) -> Chosen:
    """Return the value that ``value`` stands for, as one of several words."""
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{name} is not one of {', '.join(choices)}")
    return choices[value]


def as_integer(value: Any, name: str, *, min_value: int = 0, max_value: int = U64_MAX) -> int:
    """Return ``value`` as an integer between ``min_value`` and ``max_value``."""
    if (
        isinstance(value, str)
        and len(value) <= _DIGITS_MAX
        and value.isascii()
        and value.lstrip("-").isdigit()
    ):
        try:
            value = int(value)
        except ValueError:
            raise ArgumentError(f"{name} is not an integer") from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(f"{name} is not an integer")
    if not min_value <= value <= max_value:
        raise ArgumentError(f"{name} is not between {min_value} and {max_value}")
    return value


def as_octets(value: Any, name: str, *, size: int | None = None) -> bytes:
    """Return ``value`` as bytes from hex."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} is not a string of hex digits")
    try:
        data = bytes.fromhex(value)
    except ValueError:
        raise ArgumentError(f"{name} is not hex") from None
    if len(data) * 2 != len(value):
        raise ArgumentError(f"{name} holds white space")
    if size is not None and len(data) != size:
        raise ArgumentError(f"{name} has {len(data)} bytes, not {size}")
    return data
