"""One way to lift items to fingerprints: its lanes, how they combine, and its bytes on the wire."""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from culm_models.lifts.errors import FingerprintLengthError
from culm_models.lifts.item import Item

Lanes = tuple[int, ...]
"""One unsigned 64-bit number a lane."""

_MASK = 2**64 - 1
_LANE_SIZE = 8


@dataclass(frozen=True, slots=True)
class Lift:
    """A lift of the registry.

    `combine` says how the lanes of two sets become those of their union: added modulo 2^64, or XORed.
    `salt_bytes` is the size of the salt that every fingerprint of it carries, 0 for the lifts without one.
    """

    name: str
    code: int
    """How it is named on the wire, one byte."""
    lane_count: int
    combine: Literal["add", "xor"]
    salt_bytes: int
    hash_item: Callable[[Item, bytes], Lanes]

    @property
    def neutral(self) -> Lanes:
        """The lanes of the empty set."""
        return (0,) * self.lane_count

    @property
    def value_bytes(self) -> int:
        """The size of a fingerprint's value, without what `prefix` gives."""
        return self.lane_count * _LANE_SIZE

    def lanes(self, item: Item, salt: bytes = b"") -> Lanes:
        """The lanes of one item. The salt has `salt_bytes` bytes."""
        assert len(salt) == self.salt_bytes, f"{self.name} takes a salt of {self.salt_bytes} bytes"
        return self.hash_item(item, salt)

    def total(self, many: Iterable[Lanes]) -> Lanes:
        """The lanes of a union of disjoint sets; those of nothing for none."""
        total = self.neutral
        if self.combine == "xor":
            for lanes in many:
                total = tuple(a ^ b for a, b in zip(total, lanes, strict=True))
        else:
            for lanes in many:
                total = tuple((a + b) & _MASK for a, b in zip(total, lanes, strict=True))
        return total

    def without(self, lanes: Lanes, removed: Lanes) -> Lanes:
        """The lanes of a set after a part of it was taken out."""
        if self.combine == "xor":
            return tuple(a ^ b for a, b in zip(lanes, removed, strict=True))
        return tuple((a - b) & _MASK for a, b in zip(lanes, removed, strict=True))

    def prefix(self, salt: bytes = b"") -> bytes:
        """What comes before the value on the wire: the code and the salt."""
        assert len(salt) == self.salt_bytes, f"{self.name} takes a salt of {self.salt_bytes} bytes"
        return bytes((self.code,)) + salt

    def value(self, lanes: Lanes) -> bytes:
        """The value on the wire: the lanes, each big-endian."""
        return struct.pack(f">{self.lane_count}Q", *lanes)

    def read_value(self, value: bytes) -> Lanes:
        """The lanes of a value. Raises FingerprintLengthError."""
        if len(value) != self.value_bytes:
            raise FingerprintLengthError(f"a value of {self.name} of {len(value)} bytes")
        return struct.unpack(f">{self.lane_count}Q", value)

    def fingerprint(self, items: Iterable[Item], salt: bytes = b"") -> bytes:
        """The fingerprint of these items as it goes on the wire, item by item."""
        lanes = self.total(self.lanes(item, salt) for item in items)
        return self.prefix(salt) + self.value(lanes)
