"""Bytes that an attacker makes out of good ones, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

# Heads of CBOR, tags, CIDs' starts and other bytes at which decoders take their turns.
_TURNS = bytes.fromhex("00017f8081a0a1bfd8d92a58595a5b1b3b9b5f7f9ffff4f6f7f9fafb1220557071820429")


def altered(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """`data` with one to four changes."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        found = _change(random, found, others)
    return bytes(found)


def hostile(seed: int, count: int, good: list[bytes]) -> Iterator[bytes]:
    """So many altered blocks."""
    random = Random(seed)
    for _ in range(count):
        yield altered(random, random.choice(good), good)


def _change(random: Random, data: bytearray, others: list[bytes]) -> bytearray:
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 1, 2, 4, 32, 37)))
    match random.randrange(8):
        case 0 if at < len(data):
            data[at] ^= 1 << random.randrange(8)
        case 1 if at < len(data):
            data[at] = random.choice(_TURNS)
        case 2 if at < len(data):
            data[at] = random.randrange(256)
        case 3:
            data[at:at] = random.choice((bytes((random.choice(_TURNS),)), random.randbytes(end - at)))
        case 4:
            del data[at:end]
        case 5:
            data[at:at] = data[at:end] * random.choice((1, 1, 2, 200))
        case 6:
            del data[at:]
        case _:
            other = random.choice(others)
            start = random.randrange(len(other) + 1)
            data[at:end] = other[start : start + end - at]
    return data
