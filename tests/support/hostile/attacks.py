"""What a hostile remote may send: bytes and messages, for any test or load that brings them.

Each generator takes what it must vary as an argument and draws nothing by chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire.codec import encode_entry_message
from culm_models.p2panda.wire.messages import Announce, LogHeight
from tests.support.p2panda.logs import SCHEMA, make_log

_SCHEMA_HASH_DIGITS = 64


def invented_schemas(count: int, name: str = "invented", first: int = 0) -> tuple[str, ...]:
    """Well-formed schema ids that nobody has an entry of."""
    return tuple(f"{name}_0020{number:0{_SCHEMA_HASH_DIGITS}x}" for number in range(first, first + count))


def empty_containers(size_bytes: int) -> bytes:
    """One message of that size whose items are empty arrays: every byte becomes an object when decoded."""
    count = size_bytes - 8
    return b"\x83\x0a\x00\x9a" + count.to_bytes(4, "big") + b"\x80" * count


def nested_containers(depth: int) -> bytes:
    """A message whose arrays are nested that deep."""
    return b"\x81" * depth + b"\x00"


def forged_entries(entries: Sequence[CheckedOperation], session_id: int = 0) -> Iterator[bytes]:
    """Entry messages for ever, each sound in form and payload; their signatures are wrong, no two alike."""
    number = 0
    while True:
        entry = entries[number % len(entries)]
        number += 1
        forged = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).digest()
        yield encode_entry_message(session_id, entry.entry_bytes[:-16] + forged, entry.payload_bytes)


def unknown_heights(count: int, first: int = 0) -> tuple[LogHeight, ...]:
    """Heights of logs that do not exist, each of another author."""
    return tuple(
        (hashlib.blake2b(number.to_bytes(8, "big"), digest_size=32).digest(), number, number + 1)
        for number in range(first, first + count)
    )


def forked_logs(
    key_pair: KeyPair, count: int, length: int, *, schema_id: str = SCHEMA
) -> list[tuple[list[CheckedOperation], list[CheckedOperation]]]:
    """Two branches of each log: they have the first entry in common and differ from the second on."""
    forks = []
    for log_id in range(count):
        first = make_log(key_pair, log_id, 1, schema_id=schema_id, text=f"log {log_id} ")
        forks.append(
            (
                first + make_log(key_pair, log_id, length - 1, schema_id=schema_id, text="one", after=first),
                first + make_log(key_pair, log_id, length - 1, schema_id=schema_id, text="two", after=first),
            )
        )
    return forks


def announcements(schema_ids: Sequence[str], first_timestamp: int = 1) -> Iterator[Announce]:
    """Announcements of the same schemas for ever, each of which replaces the one before."""
    timestamp = first_timestamp
    while True:
        yield Announce(1, timestamp, tuple(schema_ids))
        timestamp += 1
