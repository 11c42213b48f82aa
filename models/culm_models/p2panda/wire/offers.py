"""What a peer offers beyond the specification's minimum, told in its announcement as one more schema id.

The specification's `Announce` has no room for modes and lifts. Every parser takes the id below for that of
an application schema which nobody has documents of, so a plain peer announces nothing that it shares with
us. Whoever knows it takes it out with `split` before anything else looks at the schema ids.

    culm_offers_0020 + 32 bytes in hex:

    byte 0     format, 1
    byte 1     modes: bit m for mode m
    byte 2     features: bit 0 compact form, bit 1 absence
    bytes 3-4  lifts: bit c for the lift with wire code c, big-endian
    the rest   zero; ignored when read
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_START: Final = "culm_offers_0020"
_SIZE: Final = 32
_FORMAT: Final = 1
_COMPACT: Final = 1
_ABSENCE: Final = 2
_MODE_BITS: Final = 8
_LIFT_BITS: Final = 16


@dataclass(frozen=True, slots=True)
class Offer:
    """The modes and the lifts (by wire code) that a peer speaks, and the features that it has."""

    modes: frozenset[int]
    lifts: frozenset[int]
    compact: bool = False
    """It reads the compact form of the messages of set reconciliation."""
    absence: bool = True
    """It names logs that it was shown and holds nothing of, so that its silence about a log says "equal"."""


def marker(offer: Offer) -> str:
    """The schema id that tells an offer."""
    content = bytearray(_SIZE)
    content[0] = _FORMAT
    content[1] = _bits(offer.modes, _MODE_BITS)
    content[2] = offer.compact * _COMPACT | offer.absence * _ABSENCE
    content[3:5] = _bits(offer.lifts, _LIFT_BITS).to_bytes(2, "big")
    return _START + content.hex()


def is_marker(schema_id: str) -> bool:
    """Whether this is no schema but an offer, of whatever format."""
    return schema_id.startswith(_START) and len(schema_id) == len(_START) + 2 * _SIZE


def split(schema_ids: Iterable[str]) -> tuple[tuple[str, ...], Offer | None]:
    """The schema ids without offers, in their order, and the first offer of a format that is known."""
    schemas: list[str] = []
    offer: Offer | None = None
    for schema_id in schema_ids:
        if is_marker(schema_id):
            offer = offer or _read(schema_id)
        else:
            schemas.append(schema_id)
    return tuple(schemas), offer


def _read(schema_id: str) -> Offer | None:
    try:
        content = bytes.fromhex(schema_id[len(_START) :])
    except ValueError:
        return None
    if len(content) != _SIZE or content[0] != _FORMAT:
        return None
    return Offer(
        _set_bits(content[1]),
        _set_bits(int.from_bytes(content[3:5], "big")),
        compact=bool(content[2] & _COMPACT),
        absence=bool(content[2] & _ABSENCE),
    )


def _bits(numbers: Iterable[int], size: int) -> int:
    found = 0
    for number in numbers:
        assert 0 <= number < size, f"{number} has no bit among {size}"
        found |= 1 << number
    return found


def _set_bits(bits: int) -> frozenset[int]:
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)
