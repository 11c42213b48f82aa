"""Bytes that an attacker makes out of good ones, drawn from a seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.errors import DagError

# Heads of CBOR, tags, CIDs' starts and other bytes at which decoders take their turns.
_TURNS = bytes.fromhex("00017f8081a0a1bfd8d92a58595a5b1b3b9b5f7f9ffff4f6f7f9fafb1220557071820429")


def altered(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """`data` with one to four changes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        changed = _change(random, changed, others)
    return bytes(changed)


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


def hostile_values(seed: int, count: int, good: list[bytes]) -> Iterator[bytes]:
    """So many blocks of DAG-CBOR whose form is right, and whose values are altered."""
    random = Random(seed)
    values = [decode_dag_cbor(block) for block in good]
    parts = [part for value in values for part in _parts(value)]
    for _ in range(count):
        value = random.choice(values)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            value = _altered_value(random, value, parts)
        with contextlib.suppress(DagError):
            yield encode_dag_cbor(value)


def _parts(value: Any) -> Iterator[Any]:
    yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(below)


def _altered_value(random: Random, value: Any, parts: list[Any]) -> Any:
    """The value with one of its parts altered, taken away, doubled or put elsewhere."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(sorted(value))
        match random.randrange(8):
            case 0:
                return {name: field for name, field in value.items() if name != key}
            case 1:
                return {
                    **value,
                    random.choice(("", "change", "prior", "v", "nnc", "/", key + "x")): value[key],
                }
            case _:
                return {**value, key: _altered_value(random, value[key], parts)}
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        match random.randrange(6):
            case 0:
                return [*value[:at], *value[at + 1 :]]
            case 1:
                return [*value, value[at]]
            case 2:
                return random.sample(value, len(value))
            case _:
                return [*value[:at], _altered_value(random, value[at], parts), *value[at + 1 :]]
    return _other(random, value, parts)


def _other(random: Random, value: Any, parts: list[Any]) -> Any:
    match random.randrange(6):
        case 0 if isinstance(value, bytes):
            return bytes(_change(random, bytearray(value), [value]))
        case 0 if isinstance(value, str):
            at = random.randrange(len(value) + 1)
            return value[:at] + random.choice(("", "/", "A", "\u00e9")) + value[at + random.choice((0, 1)) :]
        case 1 if isinstance(value, int):
            return random.choice((value + 1, value - 1, -value, value << 20, 0, 2**53, 2**64 - 1, -(2**64)))
        case 2:
            codec = random.choice((DAG_CBOR, RAW, 0x70, 0x0202, 0x3F))
            return cid_of(codec, random.randbytes(1))
        case 3:
            return random.choice((None, True, False, 0, -1, 1.5, "", "dag/publish", b"", [], {}, [[[]]]))
        case _:
            return random.choice(parts)
