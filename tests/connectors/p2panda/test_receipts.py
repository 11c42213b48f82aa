"""Receipts say of every peer what it holds, whichever way the connector came to know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Message

from culm_connectors.p2panda.connections.link import Deliveries
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import ReceiptRecord
from tests.support.connector_topics import read_topic, write_truth
from tests.support.edge import connector, reference_peer, running
from tests.support.logs import SCHEMA, author, make_log, pairs
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def receipts_cover(kafka: KafkaSettings, wanted: dict[bytes, dict[LogKey, int]]) -> None:
    """Wait until receipts tell of these heights; TimeoutError when they never do."""

    def enough(found: list[Message]) -> bool:
        held: dict[tuple[bytes, LogKey], int] = {}
        for message in found:
            peer_id = message.key() or b""
            for public_key, log_id, seq_num in ReceiptRecord.decode(message.value()).log_heights:
                place = (peer_id, (public_key, log_id))
                held[place] = max(seq_num, held.get(place, 0))
        return all(
            held.get((peer_id, log), 0) >= height
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
    held = {log[0].log: len(log) for log in logs}
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
                await until(lambda edge=edge: edge.index.store.counts()[1] == sum(held.values()))  # type: ignore[misc]
                await until(lambda edge=edge: edge.driver.metrics.reconciled)  # type: ignore[misc]
                if not is_killed:
                    await receipts_cover(kafka, {a.peer_id: held})
                    assert edge.driver.metrics.entries_in == 0
                dialling.cancel()


def test_a_part_of_a_log_that_is_sent_once_more_takes_no_delivery_back() -> None:
    log = (bytes(32), 0)
    deliveries = Deliveries()
    deliveries.note(log, 6, 100)
    deliveries.note(log, 5, 200)
    assert deliveries.take() == (200, {log: 6})
