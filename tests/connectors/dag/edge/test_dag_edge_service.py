"""A DAG edge without a broker: what is had is in the topics, and edges come to say the same."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from culm_connectors.dag.edge.edge_folder import open_edge_folder
from culm_connectors.dag.edge.settings import EdgeQuotas
from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.http.server import serve_http
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.service import SpooledPart
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.dag.store.tables import DATABASE_FILE
from culm_connectors.edge.fair_turns import caller_address, calling
from culm_connectors.kafka import ProducerRecord
from culm_models.dag.blocks.cid import CAR, RAW, cid_of
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, DagScenario, draw_scenario, large_shard
from culm_topics.dag.records import (
    BlockedRecord,
    decode_node_record,
    decode_publish_record,
    decode_shard_chunk,
)
from culm_topics.kafka.origin import Origin
from tests.models.dag.signers import DIDS, KEYS, publish, ucan
from tests.support.dag.edge import EdgeParts, ListedTopics, edge_parts
from tests.support.process.waiting import until

SPACE, OTHER_SPACE = SPACES[0], SPACES[1]
PEER = SEEDS[0]
SHARD, BYTES = large_shard(0)
SIZE = len(BYTES)
NODE = encode_append([SHARD])


async def bring_shard(edge: EdgeParts, peer: bytes = PEER, data: bytes = BYTES) -> SpooledPart:
    for offset in range(0, SIZE, CHUNK_SIZE):
        part = await edge.service.spool_part(
            SPACE, SHARD, SIZE, offset, data[offset : offset + CHUNK_SIZE], peer
        )
    return part


async def until_waiting(edge: EdgeParts, number: int) -> None:
    """Wait until so much waits in the outbox."""
    await until(lambda: len(edge.folder.waiting) == number)


async def test_nothing_is_had_before_kafka_has_it(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        topics.answers.clear()
        first = asyncio.create_task(edge.service.receive(SPACE, [NODE.data], PEER))
        await until(lambda: edge.folder.waiting)
        # It is on the disk, and said to nobody: neither to who brought it, nor to who brings it again.
        again = asyncio.create_task(edge.service.receive(SPACE, [NODE.data], SEEDS[1]))
        await until(lambda: topics.asked == 1)
        await edge.service.work(lambda _: None)
        assert not first.done() and not again.done()
        topics.answers.set()
        assert [outcome.status for outcome in await first] == [AckStatus.DURABLE]
        assert [outcome.status for outcome in await again] == [AckStatus.HAD]
    (record,) = topics.records("dag.nodes")
    space, cid, node = decode_node_record(record["key"], record["value"])
    assert (space, cid, node.data, node.peer) == (SPACE, NODE.cid, NODE.data, PEER)


async def test_whoever_floods_the_folder_with_work_delays_others_by_a_step(tmp_path: Path) -> None:
    order: list[str] = []
    begins = threading.Event()

    async def work(host: str, count: int) -> None:
        with calling(host, host):
            await asyncio.gather(
                *(edge.service.work(lambda _: order.append(caller_address())) for _ in range(count))
            )

    async with edge_parts(tmp_path, ListedTopics()) as edge, asyncio.TaskGroup() as group:
        with calling("10.0.0.3", "first"):
            group.create_task(edge.service.work(lambda _: begins.wait()))
        await asyncio.sleep(0)
        for host, count in (("10.0.0.1", 100), ("10.0.0.2", 1)):
            group.create_task(work(host, count))
        for _ in range(10):
            await asyncio.sleep(0)
        begins.set()
    assert order.index("10.0.0.2") < 5


async def test_what_a_process_has_left_in_its_outbox_is_published_by_the_next_one(tmp_path: Path) -> None:
    topics = ListedTopics()
    topics.answers.clear()
    async with edge_parts(tmp_path, topics) as edge:
        for number, blocks in enumerate(([NODE.data], [publish().data]), 1):
            asking = asyncio.create_task(edge.service.receive(SPACE, blocks, PEER))
            await until_waiting(edge, number)
            asking.cancel()
    assert not topics.topics
    topics.answers.set()
    async with edge_parts(tmp_path, topics) as edge:
        await edge.service.until_idle()
    assert len(topics.records("dag.nodes")) == len(topics.records("dag.publishes")) == 1


async def test_a_publish_is_told_with_each_receipt_until_it_is_in_the_order(tmp_path: Path) -> None:
    topics = ListedTopics()
    leaf = publish()
    async with edge_parts(tmp_path, topics) as edge:
        token = ucan(1, 0, {"can": "dag/append", "with": "did:key:x"})
        outcomes = await edge.service.receive(None, [leaf.data, token.block], PEER)
        assert [outcome.status for outcome in outcomes] == [AckStatus.DURABLE] * 2
        assert outcomes[0].in_order
        assert [outcome.status for outcome in await edge.service.receive(None, [leaf.data], PEER)] == [
            AckStatus.HAD
        ]
    (record,) = topics.records("dag.publishes")
    id, publish_record = decode_publish_record(record["key"], record["value"])
    assert (id, publish_record.cid, publish_record.prior, publish_record.received_at) == (
        KEYS[0],
        leaf.cid,
        None,
        NOW,
    )
    (record,) = topics.records("dag.nodes")
    assert decode_node_record(record["key"], record["value"])[0] == KEYS[0]


async def test_a_shard_is_had_when_all_of_it_is_in_its_topic(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        assert (await bring_shard(edge)).status is AckStatus.DURABLE
        assert (await bring_shard(edge, SEEDS[1])).status is AckStatus.HAD
    chunks = [decode_shard_chunk(record["key"], record["value"]) for record in topics.records("dag.shards")]
    assert b"".join(bytes(chunk.data) for _, _, chunk in sorted(chunks, key=lambda chunk: chunk[1])) == BYTES
    assert {(shard, chunk.space, chunk.peer) for shard, _, chunk in chunks} == {(SHARD, SPACE, PEER)}


async def test_what_one_edge_has_published_another_one_offers(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path / "one", topics) as edge:
        await bring_shard(edge)
        await edge.service.receive(SPACE, [NODE.data], PEER)
        await edge.service.receive(None, [publish(link=SHARD, origin=NODE.cid).data], PEER)
        published = await edge.service.published(KEYS[0])
        await edge.follow()
    async with edge_parts(tmp_path / "other", topics) as other:
        await other.follow()
        assert await other.service.published(KEYS[0]) == published
        assert await other.service.read_shard(SHARD, 0, SIZE) == BYTES
        assert not other.folder.waiting
        assert await other.service.belongs(SPACE, SHARD)


async def test_what_is_refused_is_told_once_with_who_brought_it(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        for _ in range(2):
            (outcome,) = await edge.service.receive(SPACE, [b"\xa0"], PEER)
            assert (outcome.status, outcome.code) == (AckStatus.REFUSED, "dag.schema")
        wrong = bytes(reversed(BYTES))
        assert (await bring_shard(edge, PEER, wrong)).status is AckStatus.REFUSED
        await edge.sender.send()
        assert edge.service.refusals.counts.total() == 2
    first, shard = topics.records("rejected")
    assert first["key"] == outcome.cid.raw
    assert shard["key"] == SHARD.raw


async def test_a_space_over_its_quota_takes_more_later(tmp_path: Path) -> None:
    topics = ListedTopics()
    quotas = EdgeQuotas(max_bytes_per_space=len(NODE.data) + 1)
    async with edge_parts(tmp_path, topics, quotas) as edge:
        await edge.service.receive(SPACE, [NODE.data], PEER)
        (outcome,) = await edge.service.receive(SPACE, [encode_append([]).data], PEER)
        assert (outcome.status, outcome.code) == (AckStatus.LATER, "dag.space_full")
        part = await bring_shard(edge)
        assert (part.status, part.code) == (AckStatus.LATER, "dag.space_full")
        (outcome,) = await edge.service.receive(OTHER_SPACE, [encode_append([]).data], PEER)
        assert outcome.status is AckStatus.DURABLE
        # What is here is had, whatever the quota says.
        (outcome,) = await edge.service.receive(SPACE, [NODE.data], PEER)
        assert outcome.status is AckStatus.HAD


async def test_what_is_blocked_is_refused_and_what_is_dropped_is_as_if_it_never_came(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        await bring_shard(edge)
        blocked = BlockedRecord("unwanted", NOW).encode()
        topics.topics["dag.blocked"] = [
            ProducerRecord(key=SHARD.raw, value=blocked),
            ProducerRecord(key=SPACE, value=blocked),
        ]
        topics.topics["dag.shards"] = [
            ProducerRecord(key=record["key"], value=None) for record in topics.records("dag.shards")
        ]
        await edge.follow("dag.blocked", "dag.shards")
        assert await edge.service.shard_size(SHARD) is None
        assert (await bring_shard(edge)).code == "dag.blocked"
        (outcome,) = await edge.service.receive(SPACE, [NODE.data], PEER)
        assert (outcome.status, outcome.code) == (AckStatus.REFUSED, "dag.blocked")


async def test_records_that_are_none_are_passed_over_and_told(tmp_path: Path) -> None:
    topics = ListedTopics()
    names = ("dag.blocked", "dag.nodes", "dag.publishes", "dag.shards", "dag.published")
    for name in names:
        topics.topics[name] = [ProducerRecord(key=b"nonsense", value=b"nonsense")]
    async with edge_parts(tmp_path, topics) as edge:
        await edge.follow()
        await edge.sender.send()
    assert len(topics.records("rejected")) == len(names)


async def test_what_a_failed_step_has_put_into_the_outbox_is_waited_for_by_nobody(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:

        def fail(_: object) -> None:
            edge.service.take(SPACE, [NODE.data], PEER)
            raise ValueError("as it happens")

        with pytest.raises(ValueError, match="as it happens"):
            await edge.service.work(fail)
        await edge.service.until_idle()
        (outcome,) = await edge.service.receive(SPACE, [NODE.data], PEER)
        assert outcome.status is AckStatus.DURABLE
    assert len(topics.records("dag.nodes")) == 1


async def test_a_space_of_which_too_much_waits_takes_what_is_waited_for(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics, max_waiting_nodes=2) as edge:
        roots = [encode_append([cid_of(CAR, bytes([number]))]) for number in range(3)]
        waiting = [encode_append([], root.cid).data for root in roots]
        outcomes = await edge.service.receive(SPACE, waiting, PEER)
        assert [outcome.status for outcome in outcomes] == [
            AckStatus.DURABLE,
            AckStatus.DURABLE,
            AckStatus.LATER,
        ]
        assert outcomes[-1].code == "dag.waiting_full"
        # What they wait for, and what waits for nothing, is taken; and then there is room.
        (outcome,) = await edge.service.receive(SPACE, [roots[0].data], PEER)
        assert outcome.status is AckStatus.DURABLE
        (outcome,) = await edge.service.receive(SPACE, waiting[2:], PEER)
        assert outcome.status is AckStatus.DURABLE


async def test_a_publish_of_no_form_that_comes_by_http_is_told_too(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with (
        edge_parts(tmp_path, topics) as edge,
        serve_http(edge.service, DagHttpSettings()) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        token = ucan(0, 1, {"can": "dag/publish", "with": DIDS[0]})
        for block in (b"\xff", token.block):
            assert (await client.post("/publishes", content=block)).status_code == 422
        await edge.sender.send()
        assert await edge.service.work(lambda folder: folder.read_ucan(token.cid)) is None
    (rejected,) = topics.records("rejected")
    assert rejected["key"] == cid_of(RAW, b"\xff").raw


NAMES = ("one", "two", "three")


def _pieces(rng: random.Random, scenario: DagScenario) -> list[tuple[str, tuple[Any, ...]]]:
    """What is brought, in any order, some of it more than once."""
    pieces: list[tuple[str, tuple[Any, ...]]] = [("node", node) for node in scenario.nodes]
    pieces += [("shard", shard) for shard in scenario.shards]
    pieces += rng.choices(pieces, k=len(pieces) // 3)
    rng.shuffle(pieces)
    return pieces


async def _bring(edge: EdgeParts, what: str, piece: tuple[Any, ...], peer: bytes) -> None:
    space, cid, data = piece
    if what == "node":
        (outcome,) = await edge.service.receive(space, [data], peer)
        assert outcome.status in (AckStatus.DURABLE, AckStatus.HAD)
        return
    part = None
    for offset in range(0, len(data), CHUNK_SIZE):
        part = await edge.service.spool_part(
            space, cid, len(data), offset, data[offset : offset + CHUNK_SIZE], peer
        )
    assert part is not None and part.status in (AckStatus.DURABLE, AckStatus.HAD)


async def _said(edge: EdgeParts, scenario: DagScenario) -> list[object]:
    def step(_: object) -> list[object]:
        folder = edge.folder
        return [
            (
                [cid for cid, _ in folder.queries.nodes(space)],
                sorted(folder.shards(space)),
                folder.dag_heads(space),
                folder.published(space),
                edge.folder.usage(space),
            )
            for space in scenario.spaces
        ]

    return await edge.service.work(step)


@pytest.mark.parametrize("seed", range(12))
async def test_edges_come_to_say_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    scenario, topics = draw_scenario(rng), ListedTopics()
    pieces = _pieces(rng, scenario)
    while pieces:
        # Edges come and go: each time one of them is open for a while, and reads what it has missed or not.
        async with edge_parts(tmp_path / rng.choice(NAMES), topics) as edge:
            if rng.random() < 0.7:
                await edge.follow(again=rng.random() < 0.3)
            count = min(len(pieces), rng.randint(1, 8))
            for what, piece in (pieces.pop() for _ in range(count)):
                bringing = asyncio.create_task(_bring(edge, what, piece, rng.choice(SEEDS)))
                if rng.random() < 0.1:
                    # Whoever brought it is gone before it heard of it, and comes again later.
                    await asyncio.sleep(0)
                    bringing.cancel()
                    pieces.insert(0, (what, piece))
                with contextlib.suppress(asyncio.CancelledError):
                    await bringing
    for name in NAMES:
        # What was left over in an outbox is published.
        async with edge_parts(tmp_path / name, topics) as edge:
            await edge.service.until_idle()
    contents: list[list[object]] = []
    for name in (*NAMES, "new"):
        async with edge_parts(tmp_path / name, topics) as edge:
            await edge.follow()
            contents.append(await _said(edge, scenario))
            assert not edge.folder.waiting
    assert all(other == contents[0] for other in contents)


async def test_a_folder_of_other_topics_is_refused_and_a_damaged_one_is_filled_anew(tmp_path: Path) -> None:
    rng = random.Random(4)
    scenario, topics = draw_scenario(rng), ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        for node in scenario.nodes:
            await _bring(edge, "node", node, SEEDS[0])
        await edge.follow()
        contents = await _said(edge, scenario)
    with pytest.raises(DagFolderError, match="belongs to other topics"):
        open_edge_folder(tmp_path, Origin("other", {}), DagFolderSettings(), EdgeQuotas())
    database = tmp_path / DATABASE_FILE
    database.write_bytes(b"\0" * 4_096 + database.read_bytes()[4_096:])
    async with edge_parts(tmp_path, topics) as edge:
        await edge.follow()
        assert await _said(edge, scenario) == contents
