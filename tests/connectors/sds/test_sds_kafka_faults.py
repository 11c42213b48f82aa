"""SDS over a real Kafka that is wrong, holed, or dies: it costs others nothing, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from culm_connectors.sds.participants.client import SdsClient
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import CloseCode, TransportSettings
from culm_infra.stack import Stack
from culm_models.keys import KeyPair
from culm_models.sds.frames.messages import (
    Accepted,
    EventFrame,
    Join,
    Mark,
    Refused,
    SdsMessage,
    Send,
)
from culm_models.sds.settings import SdsSettings
from culm_topics.kafka import clients as kafka_clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.records import (
    SdsCommandRecord,
    SdsInRecord,
)
from tests.support.connectors.edge import connector, running, topics
from tests.support.kafka.topic_io import read_all
from tests.support.process.waiting import until, while_working
from tests.support.sds.connectors import QUICK, TOKEN, at, own, produce, store
from tests.support.sds.edge import event, message

pytestmark = pytest.mark.kafka

PARTITIONS = 4


async def test_a_join_with_a_setting_of_a_long_name_costs_the_peer_its_connection_and_nothing_else(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge, at(edge, 2) as honest:
        async with at(edge, 1) as a:
            await a.say(Join("room", "spec", "a", hosted=True, settings={"n" * 65: 1}))
            assert (await a.closed()).code == CloseCode.PROTOCOL
        await honest.joins("room", "alice", hosted=True)
        await honest.say(Send("room", TOKEN, b"hello"))
        await honest.hears(Accepted)


async def test_without_the_topics_joining_is_refused_and_the_rest_goes_on(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    client = kafka_clients.admin(kafka)
    doomed = [kafka.topic(name) for name in ("sds.in", "sds.commands", "sds.out", "sds.events")]
    for done in client.delete_topics(doomed).values():
        done.result(30)
    # A broker lists a topic for a moment after it has deleted it.
    await until(lambda: not client.list_topics(timeout=10).topics.keys() & set(doomed))
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge, at(edge, 1) as a:
        await a.say(Join("room", "spec", "a"), SdsMessage("room", message("a", "m")))
        await a.hears(Refused, 2)
        assert a.all(Refused)[0].code == "topics.missing"
        assert edge.is_ready


async def test_a_connector_without_participants_reads_nothing_of_sds(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge:
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("partition-follower")]
        async with at(edge, 1) as a:
            await a.joins("room", "a")
        await until(lambda: not edge.sds.channels.open_channels)


async def test_a_stopping_connector_says_so_and_keeps_what_it_took(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge, at(edge, 1) as a:
        await a.joins("room", "a")
        await a.say(*(SdsMessage("room", message("a", f"m{number}", number)) for number in range(200)))
        await until(lambda: edge.sds.metrics.messages_in["content"] == 200)
        edge.stop()
        assert (await a.closed()).code == CloseCode.SHUTTING_DOWN
    assert len(read_all(kafka, "sds.in")) == 200


async def test_a_hole_that_a_repeated_batch_fills_is_neither_passed_over_nor_told_twice(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    own(kafka, alice=1, bob=2, carol=3)
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge:
        async with at(edge, 1) as a, at(edge, 2) as b:
            await a.joins("room", "alice", hosted=True)
            # A batch that failed half-way: 3 is missing. Its second run writes all of it again.
            for number in (1, 2, 4, 5):
                produce(kafka, "sds.events", "room", event(number).encode())
            await a.hears(EventFrame, 2)
            await b.joins("room", "bob", hosted=True, cursor=b"")
            await b.hears(Mark)
            for number in (1, 2, 3, 4, 5, 6):
                produce(kafka, "sds.events", "room", event(number).encode())
            for remote in (a, b):
                await remote.hears(EventFrame, 6)
                assert [frame.number for frame in remote.all(EventFrame)] == [1, 2, 3, 4, 5, 6]
        async with at(edge, 3) as c:
            await c.joins("room", "carol", hosted=True, cursor=b"")
            await c.hears(Mark)
            assert [frame.number for frame in c.all(EventFrame)] == [1, 2, 3, 4, 5, 6]


async def test_a_cursor_that_means_nothing_means_the_beginning(tmp_path: Path, kafka: KafkaSettings) -> None:
    own(kafka, b=2)
    store(kafka, "room", message("x", "m1", 1))
    produce(kafka, "sds.events", "room", event(1).encode())
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge:
        for cursor in ((10**9).to_bytes(8, "big"), b"\xff" * 8, b"x", bytes(64)):
            async with at(edge, 1) as full, at(edge, 2) as thin:
                await full.joins("room", "a", cursor=cursor)
                await full.hears(SdsMessage)
                await thin.joins("room", "b", hosted=True, cursor=cursor)
                assert [frame.number for frame in await thin.hears(EventFrame)] == [1]


async def test_records_of_another_kind_are_passed_over(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge, at(edge, 1) as a:
        await a.joins("room", "a")
        for name in ("sds.owners", "sds.in", "sds.out", "sds.events", "sds.fetch"):
            produce(kafka, name, "room", b"noise", b"")
            produce(kafka, name, "room", b"noise", key=b"\xff")
        wire = message("b", "m1", 1)
        produce(kafka, "sds.in", "room", SdsInRecord("spec", wire).encode())
        assert [frame.wire for frame in await a.hears(SdsMessage)] == [wire]


_TRANSPORT = TransportSettings(datagram_bytes="auto")
_SETTINGS = SdsSettings(resend_unacknowledged_ms=1_000, sync_floor_ms=500, sync_spread_ms=500)
_COUNT = 12


def full(folder: Path, name: str) -> SdsPeer:
    return SdsPeer(
        folder / name,
        "room",
        key_pair=KeyPair.from_private_key(name.encode().ljust(32, b"-")),
        participant_id=name,
        settings=_SETTINGS,
        durable=False,
        transport=_TRANSPORT,
    )


def ids(peer: SdsPeer) -> list[str]:
    return [message_id for _, message_id in peer.status().log]


async def test_messages_and_commands_wait_for_a_broker_that_is_away(
    tmp_path: Path, topic_prefix: str
) -> None:
    stack = Stack(tmp_path / "stack")
    dora = SdsClient("room", key_pair=KeyPair.from_private_key(b"d" * 32), participant_id="dora")
    try:
        kafka = topics(await asyncio.to_thread(stack.up, quick_start=True), topic_prefix)
        async with (
            running(connector(tmp_path / "west", kafka)) as west,
            running(connector(tmp_path / "east", kafka)) as east,
            full(tmp_path, "alice") as alice,
            full(tmp_path, "bob") as bob,
            dora,
        ):
            assert west.address is not None and east.address is not None
            alice.dial(west.address)
            bob.dial(east.address)
            dora.dial(east.address)
            sent = [await alice.send(b"before")]
            accepted = [await dora.send(b"before")]
            await until(lambda: ids(bob) == sent)

            await asyncio.to_thread(stack.kill)
            for number in range(_COUNT):
                sent += [await peer.send(b"%d" % number) for peer in (alice, bob)]
            asked = asyncio.create_task(dora.send(b"meanwhile"))
            # Both had their own words at once; those of the other edge pass through Kafka.
            await until(lambda: len(ids(alice)) == len(ids(bob)) == 1 + _COUNT)
            assert not asked.done(), "no edge has kept it durably"

            await asyncio.to_thread(stack.up, quick_start=True)
            await until(lambda: set(ids(alice)) == set(ids(bob)) == set(sent))
            assert ids(alice) == ids(bob)
            async with while_working():
                accepted.append(await asked)
        commands = [SdsCommandRecord.decode(value) for _, value in read_all(kafka, "sds.commands")]
        texts = {command.token: command.content for command in commands if command.kind == "send"}
        assert sorted(texts.values(), key=repr) == [b"before", b"meanwhile"]
        assert len(set(accepted)) == len(texts)
    finally:
        await asyncio.to_thread(stack.down)
