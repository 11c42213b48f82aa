"""Receipts say of every peer what it holds; connectors are linked over QUIC and share no topics."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from confluent_kafka import Message

from culm_connectors.p2panda.connections.writer import Deliveries
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import EntryRecord, ReceiptRecord
from tests.support.connectors.edge import connector, reference_peer, running, topics, write_document
from tests.support.kafka.topic_io import read_topic, write_truth
from tests.support.p2panda.logs import SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka


async def receipts_cover(kafka: KafkaSettings, wanted: dict[bytes, dict[LogKey, int]]) -> None:
    """Wait until receipts tell of these heights; TimeoutError when they never do."""

    def enough(messages: list[Message]) -> bool:
        heights: dict[tuple[bytes, LogKey], int] = {}
        for message in messages:
            peer_id = message.key() or b""
            for public_key, log_id, seq_num in ReceiptRecord.decode(message.value()).log_heights:
                peer_log = (peer_id, (public_key, log_id))
                heights[peer_log] = max(seq_num, heights.get(peer_log, 0))
        return all(
            heights.get((peer_id, log), 0) >= height
            for peer_id, logs in wanted.items()
            for log, height in logs.items()
        )

    await read_topic(kafka, "receipts", enough)


@pytest.mark.parametrize("told_late", [False, True])
async def test_receipts_say_what_every_peer_holds(
    tmp_path: Path, kafka: KafkaSettings, told_late: bool
) -> None:
    logs = [make_log(author(f"author {number}"), 0, 1 + number % 5) for number in range(60)]
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        reference_peer(tmp_path, "c", schemas=[SCHEMA]) as c,
    ):
        assert edge.address is not None
        peers = (a, b, c)
        for number, log in enumerate(logs):
            await peers[number % 3].add(pairs(log))
            await peers[(number + 1) % 3].add(pairs(log[: len(log) // 2]))
        if not told_late:
            write_truth(kafka, *logs[::4])
        for peer in peers:
            peer.dial(edge.address)
        if told_late:
            write_truth(kafka, *logs)
        wanted = {log[0].log: len(log) for log in logs}
        for peer in peers:
            await peer.wait_until_holding(wanted, 60)
        await until(lambda: all(edge.index.store.height(*log) == height for log, height in wanted.items()))
        await receipts_cover(kafka, {peer.peer_id: wanted for peer in peers})


async def test_receipts_that_a_killed_connector_had_in_memory_are_told_when_the_peer_comes_again(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    logs = [make_log(author(f"author {number}"), 0, 1 + number % 5) for number in range(40)]
    heights = {log[0].log: len(log) for log in logs}
    async with reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a:
        for log in logs:
            await a.add(pairs(log))
        for is_killed in (True, False):
            edge = connector(tmp_path / "edge", kafka)
            async with running(edge):
                if is_killed:
                    # All that it learned of peers is gone with it.
                    edge.publisher.receipts = lambda *_: None  # type: ignore[method-assign]
                assert edge.address is not None
                dialling = a.dial(edge.address)
                await until(lambda edge=edge: edge.index.store.counts()[1] == sum(heights.values()))  # type: ignore[misc]
                await until(lambda edge=edge: edge.driver.metrics.reconciled)  # type: ignore[misc]
                if not is_killed:
                    await receipts_cover(kafka, {a.peer_id: heights})
                    assert edge.driver.metrics.entries_in == 0
                dialling.cancel()


def test_a_part_of_a_log_that_is_sent_once_more_takes_no_delivery_back() -> None:
    log = (bytes(32), 0)
    deliveries = Deliveries()
    deliveries.note(log, 6, 100)
    deliveries.note(log, 5, 200)
    assert deliveries.take() == (200, {log: 6})


async def entries_of(kafka: KafkaSettings, count: int) -> dict[tuple[bytes, bytes], bytes]:
    """Who brought each of the entries on `entries`, once there are this many records."""
    messages = await read_topic(kafka, "entries", lambda messages: len(messages) >= count)
    records = [EntryRecord.decode(message.value()) for message in messages]
    assert len(records) == count, "each entry is there once"
    return {(record.entry, record.operation): record.brought_by for record in records}


async def test_entries_cross_a_link_both_ways_once(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    here = topics(kafka_bootstrap, f"here-{topic_prefix}")
    there = topics(kafka_bootstrap, f"there-{topic_prefix}")
    async with running(connector(tmp_path / "here", here)) as first:
        assert first.address is not None
        async with (
            running(connector(tmp_path / "there", there, dial=(first.address,))) as second,
            reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
            reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        ):
            assert second.address is not None
            before = await write_document(a, 4)
            a.dial(first.address)
            b.dial(second.address)
            await b.wait_until_holding({before[0].log: 5}, 30)
            after = await write_document(b, 6)
            await a.wait_until_holding({after[0].log: 7}, 30)
            assert a.heights() == b.heights()
            wanted = set(pairs(before) + pairs(after))
            brought_here, brought_there = await entries_of(here, 12), await entries_of(there, 12)
            assert set(brought_here) == set(brought_there) == wanted
            assert set(brought_here.values()) == {a.peer_id, second.key_pair.public_key}
            assert set(brought_there.values()) == {b.peer_id, first.key_pair.public_key}
            assert first.interest.served == second.interest.served == (SCHEMA,)
            assert second.driver.metrics.sessions_by_mode[1] >= 1


async def test_a_link_that_was_cut_catches_up(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    here = topics(kafka_bootstrap, f"here-{topic_prefix}")
    there = topics(kafka_bootstrap, f"there-{topic_prefix}")
    only = {"schemas": (SCHEMA,)}
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(running(connector(tmp_path / "here", here, **only)))
        assert first.address is not None
        address = first.address
        async with (
            running(connector(tmp_path / "there", there, dial=(address,), **only)) as second,
            reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        ):
            assert second.address is not None
            b.dial(second.address)
            log = await write_document(b, 3)
            await until(lambda: first.index.store.height(*log[0].log) == 4)
            await stack.aclose()
            await until(lambda: not second.driver.peer.sessions(first.key_pair.public_key))
            more = await write_document(b, 9)
            await until(lambda: second.index.store.height(*more[0].log) == 10)
            async with running(connector(tmp_path / "here", here, listen=address, **only)) as again:
                await until(lambda: again.index.store.height(*more[0].log) == 10)
                assert again.driver.metrics.rejects.total() == 0
