"""Bytes that mean harm never do more than end their connection, and what is remembered of them is bounded."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, IDENTITY, RAW, Cid, cid_of, make_cid
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import NodesReceived, ShardSpooled, TokenReceived
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.wire.codec import frame_of
from culm_models.dag.wire.messages import (
    CHUNK_SIZE,
    DagAck,
    DagBlocks,
    DagCancel,
    DagChunk,
    DagDone,
    DagHello,
    DagMessage,
    DagOffer,
    DagWant,
)
from culm_models.testing.dag.replica import MemoryReplica
from culm_models.testing.dag.scenario import SPACES, large_shard

ROUNDS = int(os.environ.get("CULM_DAG_HOSTILE_ROUNDS", "60"))
SPACE, PEER = SPACES[0], SPACES[1]
SETTINGS = ExchangeSettings(
    "bound", bytes(32), spaces=(SPACE,), nodes_known_of=50, shards_known_of=20, unasked_bytes=3_000_000
)
HELLO = DagHello(1_000_000, (SPACE,), "bound", bytes(32))
SHARD, SHARD_BYTES = large_shard(0)
NODES = [encode_append([SHARD])]
for _ in range(5):
    NODES.append(encode_append([], NODES[-1].cid))


def any_cid(rng: random.Random) -> Cid:
    """One that is here, one that could be, or one of a form that nothing here has."""
    digest = rng.randbytes(32)
    odd = [make_cid(1, RAW, IDENTITY, rng.randbytes(rng.choice((0, 300)))), make_cid(0, 0x70, 0x12, digest)]
    odd.append(make_cid(1, CAR, 0xB240, digest))
    return rng.choice(
        [SHARD, *(node.cid for node in NODES), cid_of(CAR, digest), cid_of(DAG_CBOR, digest), *odd]
    )


def any_message(rng: random.Random) -> DagMessage:
    """One of the eight kinds, of good form."""
    cids = tuple(any_cid(rng) for _ in range(rng.choice((0, 1, 5, 200))))
    shards = tuple((cid, rng.choice((1, len(SHARD_BYTES), 134_217_728))) for cid in cids[:100])
    wanted = tuple((cid, rng.choice(((), ((0, CHUNK_SIZE),), ((0, len(SHARD_BYTES)),)))) for cid in cids[:50])
    size = len(SHARD_BYTES)
    offset = rng.choice((0, CHUNK_SIZE))
    part = SHARD_BYTES[offset : offset + CHUNK_SIZE]
    makers: list[Callable[[], DagMessage]] = [
        lambda: HELLO,
        lambda: DagOffer(SPACE, cids[: len(cids) // 2], cids[len(cids) // 2 :], shards),
        lambda: DagWant(SPACE, cids, wanted),
        lambda: DagCancel(SPACE, cids),
        lambda: DagBlocks(SPACE, (*(rng.choice(NODES).data for _ in cids), rng.randbytes(50))),
        lambda: DagChunk(SPACE, rng.choice((SHARD, any_cid(rng))), size, offset, part),
        lambda: DagAck(SPACE, tuple((cid, rng.choice((0, 1, 3, 4)), None) for cid in cids)),
        lambda: DagDone(SPACE, cids, None),
    ]
    return rng.choices(makers, (1, 8, 6, 3, 6, 4, 5, 2))[0]()


def drive(exchange: Exchange, replica: MemoryReplica, data: bytes) -> None:
    """What a driver does, with any verdict."""
    waiting = exchange.receive(data)
    for event in waiting:
        match event:
            case NodesReceived():
                results = [(cid, *replica.put(SPACE, cid, block)) for cid, block in event.blocks]
                exchange.settle(SPACE, results)
            case ShardSpooled():
                exchange.settle(SPACE, [(event.shard, *replica.accept(PEER, SPACE, event.shard))])
            case TokenReceived():
                exchange.access_changed(SPACE)
            case _:
                pass
    for _ in range(20):
        exchange.next_frame()


@pytest.mark.parametrize("seed", range(8))
def test_messages_in_any_order_end_the_connection_or_nothing(seed: int) -> None:
    for number in range(ROUNDS // 8 + 1):
        rng = random.Random(seed * 1_000 + number)
        replica = MemoryReplica()
        if rng.random() < 0.5:
            replica.add_shard(SPACE, SHARD, SHARD_BYTES)
            for node in NODES[:4]:
                replica.put(SPACE, node.cid, node.data)
        exchange = Exchange(replica, SETTINGS, PEER)
        drive(exchange, replica, frame_of(HELLO))
        for _ in range(30):
            drive(exchange, replica, frame_of(any_message(rng)))
        assert set(replica.blocks) <= {node.cid for node in NODES}
        assert set(replica.shard_bytes) <= {SHARD}
        assert len(replica.spools) <= SETTINGS.shards_known_of * 2
        assert exchange.dropped is None or exchange.dropped.code.startswith("dag.")


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bits_end_the_connection_or_nothing(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        replica = MemoryReplica()
        exchange = Exchange(replica, SETTINGS, PEER)
        small: list[DagMessage] = [HELLO, DagOffer(SPACE, (NODES[-1].cid,), (), ((SHARD, 5),))]
        small += [DagBlocks(SPACE, (NODES[-1].data, NODES[-2].data)), DagDone(SPACE, (), None)]
        data = bytearray(b"".join(map(frame_of, small)))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        drive(exchange, replica, bytes(data))
        assert set(replica.blocks) <= {NODES[-1].cid, NODES[-2].cid}
