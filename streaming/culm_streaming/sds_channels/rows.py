"""Records of `sds.in` and `sds.commands` on their way to the state of their channels, packed by shard.

Rows cross the shuffle by the hundred in one packed record a shard: a head of fixed size each, and their keys
and values end to end. What is in a record is looked at behind the shuffle, where its channel is known.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culm_topics.errors import RecordError
from culm_topics.records import shard_of, split_channel_key

Array = NDArray[Any]

# A packed record, and with it a batch between Spark and Python, stays far below 2 GiB.
_FLUSH_BYTES = 16 * 1024 * 1024
_KNOWN_KEYS = 65_536
_ABSENT = -1

HEAD = np.dtype(
    [
        ("timestamp_ms", "<i8"),
        ("offset", "<i8"),
        ("partition", "<i4"),
        ("key_size", "<i4"),
        ("value_size", "<i4"),
        ("source", "u1"),
    ]
)
"""A size of -1 stands for no key or no value at all."""


class Source(IntEnum):
    """The topic that a row comes from; in the order in which rows of the same time are taken."""

    COMMANDS = 0
    IN = 1


TOPICS: dict[Source, str] = {Source.COMMANDS: "sds.commands", Source.IN: "sds.in"}


class Row(NamedTuple):
    """One record as Kafka has it. Rows sort as they are to be taken."""

    timestamp_ms: int
    source: int
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows of one shard: heads, then keys and values, each end to end."""

    shard: int
    heads: bytes
    bodies: bytes


class Shards:
    """The shard of each key, the last ones remembered: batches name the same channels again and again."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._known: dict[bytes | None, int] = {None: 0}

    def of(self, key: bytes | None) -> int:
        """Keys that are none go to the first shard, which refuses their records."""
        shard = self._known.get(key)
        if shard is None:
            if len(self._known) >= _KNOWN_KEYS:
                self._known = {None: 0}
            try:
                shard = shard_of(split_channel_key(key), self._shards)
            except RecordError:
                shard = 0
            self._known[key] = shard
        return shard


def pack_rows(rows: Iterable[Row], shards: Shards) -> Iterator[PackedRows]:
    """Rows by shard, in pieces of bounded size; each shard's in the order in which they come."""
    heads: dict[int, list[tuple[int, ...]]] = {}
    bodies: dict[int, list[bytes]] = {}
    size_bytes = 0
    for timestamp_ms, source, partition, offset, key, value in rows:
        shard = shards.of(key)
        key_size = _ABSENT if key is None else len(key)
        value_size = _ABSENT if value is None else len(value)
        heads.setdefault(shard, []).append((timestamp_ms, offset, partition, key_size, value_size, source))
        body = bodies.setdefault(shard, [])
        body.append(key or b"")
        body.append(value or b"")
        size_bytes += len(body[-1])
        if size_bytes > _FLUSH_BYTES:
            yield from _flushed(heads, bodies)
            size_bytes = 0
    yield from _flushed(heads, bodies)


def _flushed(heads: dict[int, list[tuple[int, ...]]], bodies: dict[int, list[bytes]]) -> Iterator[PackedRows]:
    for shard in sorted(heads):
        yield PackedRows(shard, np.array(heads[shard], HEAD).tobytes(), b"".join(bodies[shard]))
    heads.clear()
    bodies.clear()


def unpack_rows(packed: Sequence[tuple[bytes, bytes]]) -> list[Row]:
    """The rows of packed records, sorted as they are to be taken: the same in every run of a batch."""
    rows: list[Row] = []
    for heads_bytes, bodies in packed:
        place = 0
        for timestamp_ms, offset, partition, key_size, value_size, source in np.frombuffer(
            heads_bytes, HEAD
        ).tolist():
            key = value = None
            if key_size >= 0:
                key = bodies[place : place + key_size]
                place += key_size
            if value_size >= 0:
                value = bodies[place : place + value_size]
                place += value_size
            rows.append(Row(timestamp_ms, source, partition, offset, key, value))
        assert place == len(bodies), "the bodies are as long as their heads say"
    # No two rows agree in their first four fields, so keys and values are never compared.
    rows.sort(key=_order)
    return rows


def _order(row: Row) -> tuple[int, int, int, int]:
    return row[:4]
