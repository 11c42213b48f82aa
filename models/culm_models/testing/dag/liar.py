"""An end that sends false statements: the messages of an honest end, changed before they are sent."""

from __future__ import annotations

import random
from dataclasses import replace

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, cid_of
from culm_models.dag.exchange.ranges import chunk_length
from culm_models.dag.wire.messages import (
    CHUNK_SIZE,
    AckStatus,
    DagAck,
    DagBlocks,
    DagChunk,
    DagDone,
    DagMessage,
    DagOffer,
    DagWant,
)


def lie(rng: random.Random, message: DagMessage) -> list[DagMessage]:
    """Return the messages to send in place of an honest message."""
    kind = rng.randrange(7)
    if kind == 0:
        return []
    if kind == 1:
        return [message, message]
    match message:
        case DagOffer():
            return _lie_in_offer(rng, message, kind)
        case DagBlocks():
            garbage = rng.randbytes(rng.randint(1, 300))
            blocks = tuple(_flipped(rng, block) if rng.random() < 0.5 else block for block in message.blocks)
            return [replace(message, blocks=(garbage, *blocks))]
        case DagChunk():
            return _lie_in_chunk(rng, message, kind)
        case DagAck():
            return [
                replace(message, results=tuple((cid, _status(rng), None) for cid, _, _ in message.results)),
                message,
            ]
        case DagWant():
            nothing = cid_of(rng.choice((CAR, DAG_CBOR)), rng.randbytes(3))
            return [replace(message, nodes=(*message.nodes, nothing)), DagDone(message.space, (), nothing)]
    return [message]


def _lie_in_offer(rng: random.Random, message: DagOffer, kind: int) -> list[DagMessage]:
    nothing = tuple((cid_of(CAR, rng.randbytes(3)), rng.randint(1, 3_000_000)) for _ in range(3))
    if kind == 2:
        heads = (*message.dag_heads, cid_of(DAG_CBOR, rng.randbytes(3)))
        return [replace(message, dag_heads=heads, shards=(*message.shards, *nothing))]
    shards = tuple((cid, max(1, size + rng.choice((-1, 0, 1)))) for cid, size in message.shards)
    return [replace(message, shards=shards)]


def _lie_in_chunk(rng: random.Random, message: DagChunk, kind: int) -> list[DagMessage]:
    if kind == 2:
        return [replace(message, data=_flipped(rng, message.data))]
    if kind == 3:
        return [message, replace(message, shard=cid_of(CAR, rng.randbytes(3)))]
    size = message.size + rng.choice((0, CHUNK_SIZE))
    data = message.data.ljust(chunk_length(size, message.offset), b"\0")
    return [replace(message, size=size, data=data)]


def _status(rng: random.Random) -> int:
    return rng.choice([int(status) for status in AckStatus if status is not AckStatus.REFUSED])


def _flipped(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
