"""SDS over connectors and a real Kafka, without a job: live between connectors, the past, look-ups."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from culm_connectors.connector import Connector
from culm_connectors.transport import CloseCode
from culm_models.sds.frames.messages import (
    Accepted,
    EventFrame,
    Fetch,
    Fetched,
    Head,
    Join,
    Mark,
    Refused,
    SdsMessage,
    Send,
)
from culm_models.sds.wire.codec import decode
from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.kafka import clients as kafka_clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.records import (
    SdsCommandRecord,
    SdsFetchRecord,
    SdsIndexRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
    SdsOwnerRecord,
    channel_key,
    check_of,
    index_key,
    owner_key,
    shard_of,
)
from tests.support.edge import connector, running, topics
from tests.support.http import get
from tests.support.quic import eventually, identity
from tests.support.sds_edge import Remote, event, message, remote
from tests.support.topic_io import read_all

pytestmark = pytest.mark.kafka

PARTITIONS = 4
TOKEN = bytes(range(16))
QUICK = {"tick_interval_s": 0.05, "head_idle_s": 0.2, "job_fetch_spread_s": 0.0}


@functools.lru_cache(maxsize=1)
def producer(bootstrap: str) -> Producer:
    """One for all records on a broker: a new one takes longer than the record that it writes."""
    return kafka_clients.producer(KafkaSettings(bootstrap=bootstrap))


def produce(
    settings: KafkaSettings, name: str, channel_id: str, *values: bytes, key: bytes | None = None
) -> int:
    """Write records of a channel as the job would; returns the offset of the last."""
    offsets: list[int | None] = []
    client = producer(settings.bootstrap)
    for value in values:
        client.produce(
            settings.topic(name),
            value,
            key or channel_key(channel_id),
            partition=shard_of(channel_id, PARTITIONS),
            on_delivery=lambda _, record: offsets.append(record.offset()),
        )
    assert client.flush(30) == 0
    assert offsets[-1] is not None
    return offsets[-1]


def own(settings: KafkaSettings, **owners: int) -> None:
    """Say as the job would whose hosted ids of the channel are: the numbers of their keys."""
    for participant_id, number in owners.items():
        row = SdsOwnerRecord("hosted", "spec", identity(number).peer_id, 1)
        produce(settings, "sds.owners", "room", row.encode(), key=owner_key("room", participant_id))


def store(settings: KafkaSettings, channel_id: str, wire: bytes, *, index: bool = True) -> None:
    """Have a message stored, and indexed, as the two jobs do."""
    found = decode(wire, "spec")
    assert found.lamport_timestamp is not None
    record = SdsMessageRecord("spec", found.message_id, found.sender_id, found.lamport_timestamp, wire)
    offset = produce(settings, "sds.messages", channel_id, record.encode())
    if index:
        row = SdsIndexRecord(
            shard_of(channel_id, PARTITIONS),
            offset,
            found.lamport_timestamp,
            found.sender_id,
            len(wire),
            check_of(wire),
        )
        produce(settings, "sds.index", channel_id, row.encode(), key=index_key(channel_id, found.message_id))


@contextlib.asynccontextmanager
async def two(folder: Path, settings: KafkaSettings) -> AsyncIterator[tuple[Connector, Connector]]:
    async with (
        running(connector(folder / "one", settings, sds=QUICK)) as one,
        running(connector(folder / "two", settings, sds=QUICK)) as other,
    ):
        yield one, other


def at(which: Connector, number: int) -> contextlib.AbstractAsyncContextManager[Remote]:
    assert which.address is not None
    return remote(which.address, number)


async def test_messages_reach_peers_of_other_connectors_live_and_once(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with two(tmp_path, settings) as (one, other), at(one, 1) as a, at(one, 2) as b, at(other, 3) as c:
        await a.joins("room", "a")
        await b.joins("room", "b")
        await c.joins("room", "c")
        wires = [message("a", f"m{number}", number) for number in range(20)]
        await a.say(*(SdsMessage("room", wire) for wire in wires))
        await c.hears(SdsMessage, 20)
        answer = message("c", "answer", 21)
        await c.say(SdsMessage("room", answer))
        await a.hears(SdsMessage)
        await b.hears(SdsMessage, 21)
        assert [one.wire for one in c.all(SdsMessage)] == wires
        assert [one.wire for one in b.all(SdsMessage)] == [*wires, answer]
        assert [one.wire for one in a.all(SdsMessage)] == [answer]
        records = [SdsInRecord.decode(value) for _, value in read_all(settings, "sds.in")]
        assert {record.wire for record in records} == {*wires, answer}
        assert {record.peer_id for record in records} == {identity(1).peer_id, identity(3).peer_id}


async def test_ephemeral_messages_of_clients_reach_those_of_other_connectors(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with two(tmp_path, settings) as (one, other), at(one, 1) as a, at(other, 2) as b, at(other, 3) as c:
        await a.joins("room", "alice", hosted=True)
        await b.joins("room", "bob", hosted=True)
        await c.joins("room", "carol")
        await a.say(Send("room", TOKEN, b"typing", ephemeral=True))
        (heard,) = await b.hears(EventFrame)
        assert (heard.number, heard.content) == (None, b"typing")
        assert decode((await c.hears(SdsMessage))[0].wire, "spec").kind == "ephemeral"
        await a.hears(Accepted)
        kinds = {SdsCommandRecord.decode(value).kind for _, value in read_all(settings, "sds.commands")}
        assert kinds == {"join", "open"}


async def test_commands_go_to_the_channels_partition_and_events_come_back_numbered(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    own(settings, alice=1)
    async with two(tmp_path, settings) as (one, other):
        async with at(one, 1) as a:
            await a.joins("room", "alice", hosted=True)
            await a.say(Send("room", TOKEN, b"hello"))
            await a.hears(Accepted)
            commands = [SdsCommandRecord.decode(value) for _, value in read_all(settings, "sds.commands")]
            assert [(command.kind, command.participant_id) for command in commands] == [
                ("join", "alice"),
                ("send", "alice"),
            ]
            for number in (1, 2, 2, 1, 3):
                produce(settings, "sds.events", "room", event(number).encode())
                produce(settings, "sds.events", "other", event(number + 5).encode())
            await a.hears(EventFrame, 3)
            assert [found.number for found in a.all(EventFrame)] == [1, 2, 3]
            cursor = a.all(EventFrame)[0].cursor
        produce(settings, "sds.events", "room", event(4).encode())
        async with at(other, 1) as a:
            await a.joins("room", "alice", hosted=True, after=1, cursor=cursor)
            await a.hears(Mark)
            produce(settings, "sds.events", "room", event(5).encode())
            await a.hears(EventFrame, 4)
            assert [found.number for found in a.all(EventFrame)] == [2, 3, 4, 5]
        async with at(other, 1) as a:
            await a.joins("room", "alice", hosted=True, cursor=b"")
            await a.hears(EventFrame, 5)
            assert [found.number for found in a.all(EventFrame)] == [1, 2, 3, 4, 5]


async def test_what_the_job_says_reaches_full_participants(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with two(tmp_path, settings) as (one, other), at(one, 1) as a, at(other, 2) as b:
        await a.joins("room", "a")
        await b.joins("room", "b")
        wire = message("alice", "m1", 5)
        produce(settings, "sds.out", "room", SdsOutRecord("spec", "new", "alice", "m1", wire).encode())
        assert (await a.hears(SdsMessage))[0].wire == wire
        assert (await b.hears(SdsMessage))[0].wire == wire
        assert not read_all(settings, "sds.in")


async def test_the_past_the_head_and_single_messages_come_from_the_store(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    wires = [message("x", f"m{number}", number) for number in range(30)]
    for wire in wires:
        store(settings, "room", wire)
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge:
        async with at(edge, 1) as a:
            await a.joins("room", "a", cursor=b"")
            await eventually(lambda: a.all(Mark) and a.all(Mark)[-1].present)
            assert [found.wire for found in a.all(SdsMessage)] == wires
            cursor, hint = a.all(Mark)[-1].cursor, a.all(SdsMessage)[7].retrieval_hint
            assert hint is not None
        async with at(edge, 1) as a:
            await a.joins("room", "a", cursor=cursor)
            # The index is read in its own time; whoever is in the channel is told what it ends with.
            await eventually(lambda: a.all(Head) and a.all(Head)[-1].newest[-1:] == ((29, "m29"),))
            await a.say(
                Fetch("room", 1, (HistoryEntry("m3"), HistoryEntry("m7", hint), HistoryEntry("nothing")))
            )
            (answer,) = await a.hears(Fetched)
            assert sorted(wire for wire, _ in answer.wires) == sorted((wires[3], wires[7]))
            store(settings, "room", message("x", "trailing", 99))
            await eventually(lambda: a.all(Head)[-1].newest[-1] == (99, "trailing"))
            assert not a.all(SdsMessage)


async def test_a_join_with_a_setting_of_a_long_name_costs_the_peer_its_connection_and_nothing_else(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge, at(edge, 2) as honest:
        async with at(edge, 1) as a:
            await a.say(Join("room", "spec", "a", hosted=True, settings={"n" * 65: 1}))
            assert (await a.closed()).code == CloseCode.PROTOCOL
        await honest.joins("room", "alice", hosted=True)
        await honest.say(Send("room", TOKEN, b"hello"))
        await honest.hears(Accepted)


async def test_the_job_is_answered_into_sds_in(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    held = message("x", "held", 1)
    async with two(tmp_path, settings) as (one, other), at(one, 1) as a, at(other, 2) as b:
        await a.joins("room", "a")
        await b.joins("room", "b")
        request = SdsFetchRecord("spec", (HistoryEntry("held"),), 2)
        produce(settings, "sds.fetch", "room", request.encode())
        (question,) = await a.hears(Fetch)
        await a.say(Fetched("room", question.request, ((held, None),)))
        await eventually(lambda: [found.wire for found in b.all(SdsMessage)] == [held])
        assert [SdsInRecord.decode(value).wire for _, value in read_all(settings, "sds.in")] == [held]


async def test_without_the_topics_joining_is_refused_and_the_rest_goes_on(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    client = kafka_clients.admin(settings)
    doomed = [settings.topic(name) for name in ("sds.in", "sds.commands", "sds.out", "sds.events")]
    for done in client.delete_topics(doomed).values():
        done.result(30)
    # A broker lists a topic for a moment after it has deleted it.
    await eventually(lambda: not client.list_topics(timeout=10).topics.keys() & set(doomed))
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge, at(edge, 1) as a:
        await a.say(Join("room", "spec", "a"), SdsMessage("room", message("a", "m")))
        await a.hears(Refused, 2)
        assert a.all(Refused)[0].code == "topics.missing"
        assert edge.is_ready


async def test_a_connector_without_participants_reads_nothing_of_sds(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge:
        assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("partition-follower")]
        async with at(edge, 1) as a:
            await a.joins("room", "a")
        await eventually(lambda: not edge.sds.channels.rooms)


async def test_a_stopping_connector_says_so_and_keeps_what_it_took(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge, at(edge, 1) as a:
        await a.joins("room", "a")
        await a.say(*(SdsMessage("room", message("a", f"m{number}", number)) for number in range(200)))
        await eventually(lambda: edge.sds.metrics.messages_in["content"] == 200)
        edge.stop()
        assert (await a.closed()).code == CloseCode.SHUTTING_DOWN
    assert len(read_all(settings, "sds.in")) == 200


async def test_a_hole_that_a_repeated_batch_fills_is_neither_passed_over_nor_told_twice(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    own(settings, alice=1, bob=2, carol=3)
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge:
        async with at(edge, 1) as a, at(edge, 2) as b:
            await a.joins("room", "alice", hosted=True)
            # A batch that failed half-way: 3 is missing. Its second run writes all of it again.
            for number in (1, 2, 4, 5):
                produce(settings, "sds.events", "room", event(number).encode())
            await a.hears(EventFrame, 2)
            await b.joins("room", "bob", hosted=True, cursor=b"")
            await b.hears(Mark)
            for number in (1, 2, 3, 4, 5, 6):
                produce(settings, "sds.events", "room", event(number).encode())
            for one in (a, b):
                await one.hears(EventFrame, 6)
                assert [found.number for found in one.all(EventFrame)] == [1, 2, 3, 4, 5, 6]
        async with at(edge, 3) as c:
            await c.joins("room", "carol", hosted=True, cursor=b"")
            await c.hears(Mark)
            assert [found.number for found in c.all(EventFrame)] == [1, 2, 3, 4, 5, 6]


async def test_a_cursor_that_means_nothing_means_the_beginning(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    own(settings, b=2)
    store(settings, "room", message("x", "m1", 1))
    produce(settings, "sds.events", "room", event(1).encode())
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge:
        for cursor in ((10**9).to_bytes(8, "big"), b"\xff" * 8, b"x", bytes(64)):
            async with at(edge, 1) as full, at(edge, 2) as thin:
                await full.joins("room", "a", cursor=cursor)
                await full.hears(SdsMessage)
                await thin.joins("room", "b", hosted=True, cursor=cursor)
                assert [found.number for found in await thin.hears(EventFrame)] == [1]


async def test_records_of_another_kind_are_passed_over(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with running(connector(tmp_path, settings, sds=QUICK)) as edge, at(edge, 1) as a:
        await a.joins("room", "a")
        for name in ("sds.owners", "sds.in", "sds.out", "sds.events", "sds.fetch"):
            produce(settings, name, "room", b"noise", b"")
            produce(settings, name, "room", b"noise", key=b"\xff")
        wire = message("b", "m1", 1)
        produce(settings, "sds.in", "room", SdsInRecord("spec", wire).encode())
        assert [found.wire for found in await a.hears(SdsMessage)] == [wire]


async def test_what_the_driver_counts_is_told(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    async with running(connector(tmp_path, settings, sds=QUICK, metrics_port=0)) as edge, at(edge, 1) as a:
        await a.joins("room", "a")
        await a.say(SdsMessage("room", message("a", "m1", 1)), SdsMessage("room", b"\xff"))
        await a.hears(Refused)
        assert edge.metrics_port is not None
        _, text = await asyncio.to_thread(get, edge.metrics_port, "/metrics")
        for line in (
            'culm_connections{protocol="sds"} 1.0',
            "culm_sds_channels 1.0",
            "culm_sds_memberships 1.0",
            'culm_sds_messages_received_total{kind="content"} 1.0',
            'culm_rejected_total{code="sds.message.truncated",protocol="sds"} 1.0',
        ):
            assert line in text


async def test_whose_ids_are_is_known_before_a_join_is_answered_and_when_it_changes(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix, PARTITIONS)
    own(settings, ben=1)
    async with (
        running(connector(tmp_path, settings, sds=QUICK)) as edge,
        at(edge, 1) as ben,
        at(edge, 2) as stranger,
    ):
        await stranger.say(Join("room", "spec", "ben", hosted=True))
        assert (await stranger.hears(Refused))[0].code == "sds.join.owned"
        await ben.joins("room", "ben", hosted=True)
        own(settings, ben=2)
        assert (await ben.hears(Refused))[0].code == "sds.join.owned"
        await stranger.joins("room", "ben", hosted=True, cursor=b"")
        produce(settings, "sds.events", "room", event(1, "sent", "ben").encode())
        await stranger.hears(EventFrame)
        assert not ben.all(EventFrame)
