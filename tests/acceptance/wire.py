"""p2panda's messages as arrays and bytes, written from the specification "replication" with cbor2 alone."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

import cbor2
import xxhash

ANNOUNCE: Final = 0
SYNC_REQUEST: Final = 1
ENTRY: Final = 2
SYNC_DONE: Final = 3
HAVE: Final = 10
EMPTY_SET: Final = 20
LOWER_BOUND: Final = 21
PAYLOAD: Final = 22
EMPTY_PAYLOAD: Final = 23
DONE: Final = 24
FINGERPRINT: Final = 25
TERMINAL: Final = 26

NAMES: Final = {
    EMPTY_SET: "empty_set",
    LOWER_BOUND: "lower_bound",
    PAYLOAD: "payload",
    EMPTY_PAYLOAD: "empty_payload",
    DONE: "done",
    FINGERPRINT: "fingerprint",
    TERMINAL: "terminal",
}
NUMBERS: Final = {name: number for number, name in NAMES.items()}

Array = list[Any]
Item = tuple[str, int, int]
"""Public key in hex, log id, sequence number: hex sorts as the bytes do."""


def encode(*messages: Array) -> bytes:
    """Messages back to back."""
    return b"".join(cbor2.dumps(message) for message in messages)


def decode(data: bytes) -> list[Array]:
    """All messages; a rest that is no whole message is an error."""
    stream = io.BytesIO(data)
    messages: list[Array] = []
    while stream.tell() < len(data):
        messages.append(cbor2.load(stream))
    return messages


def boundaries(data: bytes) -> list[int]:
    """Where each message ends."""
    stream = io.BytesIO(data)
    ends: list[int] = []
    while stream.tell() < len(data):
        cbor2.load(stream)
        ends.append(stream.tell())
    return ends


def tuple_of(array: Array) -> tuple[Any, ...]:
    """A reconciliation message as `NaiveSide` takes it."""
    kind, _session, *rest = array
    name = NAMES[kind]
    values = [tuple(value) if isinstance(value, list) else value for value in rest]
    if name == "payload":
        values += [None] * (3 - len(values))
    return (name, *values)


def array_of(message: tuple[Any, ...], session_id: int) -> Array:
    """What `NaiveSide` says, as a message of a session."""
    name, *rest = message
    values = [list(value) if isinstance(value, tuple) else value for value in rest if value is not None]
    return [NUMBERS[name], session_id, *values]


def is_reconciliation(array: Array) -> bool:
    """Whether it is one of the messages 20 to 26."""
    return array[0] in NAMES


# The lifts that docs/decisions.md names: one byte code, then the value.


def _as_cbor(item: Item) -> bytes:
    return cbor2.dumps(list(item))


def _packed(item: Item) -> bytes:
    key, log_id, seq_num = item
    return bytes.fromhex(key) + log_id.to_bytes(8, "big") + seq_num.to_bytes(8, "big")


def xor64(items: Iterable[Item]) -> bytes:
    value = 0
    for item in items:
        value ^= xxhash.xxh64_intdigest(_as_cbor(item))
    return b"\x01" + value.to_bytes(8, "big")


def add64(items: Iterable[Item]) -> bytes:
    value = sum(xxhash.xxh3_64_intdigest(_as_cbor(item)) for item in items)
    return b"\x02" + (value % (1 << 64)).to_bytes(8, "big")


def add128(items: Iterable[Item]) -> bytes:
    second_seed = xxhash.xxh64_intdigest(b"culm", seed=42)
    lanes = [0, 0]
    for item in items:
        for lane, seed in enumerate((42, second_seed)):
            lanes[lane] += xxhash.xxh64_intdigest(_packed(item), seed=seed)
    return b"\x03" + b"".join((lane % (1 << 64)).to_bytes(8, "big") for lane in lanes)


LIFTS: Final = {"xor64": xor64, "add64": add64, "add128": add128}
