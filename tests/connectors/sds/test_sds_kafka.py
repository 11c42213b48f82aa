"""SDS over connectors and a real Kafka, without a job: live between connectors, the past, look-ups."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

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
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.records import (
    SdsCommandRecord,
    SdsFetchRecord,
    SdsInRecord,
    SdsOutRecord,
)
from tests.support.connectors.edge import connector, running
from tests.support.connectors.http import get
from tests.support.connectors.quic import identity
from tests.support.kafka.topic_io import read_all
from tests.support.process.waiting import until
from tests.support.sds.connectors import QUICK, TOKEN, at, own, produce, store, two
from tests.support.sds.edge import event, message

PARTITIONS = 4
pytestmark = pytest.mark.kafka


async def test_messages_reach_peers_of_other_connectors_live_and_once(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with two(tmp_path, kafka) as (edge, other), at(edge, 1) as a, at(edge, 2) as b, at(other, 3) as c:
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
        assert [frame.wire for frame in c.all(SdsMessage)] == wires
        assert [frame.wire for frame in b.all(SdsMessage)] == [*wires, answer]
        assert [frame.wire for frame in a.all(SdsMessage)] == [answer]
        records = [SdsInRecord.decode(value) for _, value in read_all(kafka, "sds.in")]
        assert {record.wire for record in records} == {*wires, answer}
        assert {record.peer_id for record in records} == {identity(1).peer_id, identity(3).peer_id}


async def test_ephemeral_messages_of_clients_reach_those_of_other_connectors(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with two(tmp_path, kafka) as (edge, other), at(edge, 1) as a, at(other, 2) as b, at(other, 3) as c:
        await a.joins("room", "alice", hosted=True)
        await b.joins("room", "bob", hosted=True)
        await c.joins("room", "carol")
        await a.say(Send("room", TOKEN, b"typing", ephemeral=True))
        (heard,) = await b.hears(EventFrame)
        assert (heard.number, heard.content) == (None, b"typing")
        assert decode((await c.hears(SdsMessage))[0].wire, "spec").kind == "ephemeral"
        await a.hears(Accepted)
        kinds = {SdsCommandRecord.decode(value).kind for _, value in read_all(kafka, "sds.commands")}
        assert kinds == {"join", "open"}


async def test_commands_go_to_the_channels_partition_and_events_come_back_numbered(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    own(kafka, alice=1)
    async with two(tmp_path, kafka) as (edge, other):
        async with at(edge, 1) as a:
            await a.joins("room", "alice", hosted=True)
            await a.say(Send("room", TOKEN, b"hello"))
            await a.hears(Accepted)
            commands = [SdsCommandRecord.decode(value) for _, value in read_all(kafka, "sds.commands")]
            assert [(command.kind, command.participant_id) for command in commands] == [
                ("join", "alice"),
                ("send", "alice"),
            ]
            for number in (1, 2, 2, 1, 3):
                produce(kafka, "sds.events", "room", event(number).encode())
                produce(kafka, "sds.events", "other", event(number + 5).encode())
            await a.hears(EventFrame, 3)
            assert [frame.number for frame in a.all(EventFrame)] == [1, 2, 3]
            cursor = a.all(EventFrame)[0].cursor
        produce(kafka, "sds.events", "room", event(4).encode())
        async with at(other, 1) as a:
            await a.joins("room", "alice", hosted=True, after=1, cursor=cursor)
            await a.hears(Mark)
            produce(kafka, "sds.events", "room", event(5).encode())
            await a.hears(EventFrame, 4)
            assert [frame.number for frame in a.all(EventFrame)] == [2, 3, 4, 5]
        async with at(other, 1) as a:
            await a.joins("room", "alice", hosted=True, cursor=b"")
            await a.hears(EventFrame, 5)
            assert [frame.number for frame in a.all(EventFrame)] == [1, 2, 3, 4, 5]


async def test_what_the_job_says_reaches_full_participants(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with two(tmp_path, kafka) as (edge, other), at(edge, 1) as a, at(other, 2) as b:
        await a.joins("room", "a")
        await b.joins("room", "b")
        wire = message("alice", "m1", 5)
        produce(kafka, "sds.out", "room", SdsOutRecord("spec", "new", "alice", "m1", wire).encode())
        assert (await a.hears(SdsMessage))[0].wire == wire
        assert (await b.hears(SdsMessage))[0].wire == wire
        assert not read_all(kafka, "sds.in")


async def test_the_past_the_head_and_single_messages_come_from_the_store(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    wires = [message("x", f"m{number}", number) for number in range(30)]
    for wire in wires:
        store(kafka, "room", wire)
    async with running(connector(tmp_path, kafka, sds=QUICK)) as edge:
        async with at(edge, 1) as a:
            await a.joins("room", "a", cursor=b"")
            await until(lambda: a.all(Mark) and a.all(Mark)[-1].present)
            assert [frame.wire for frame in a.all(SdsMessage)] == wires
            cursor, hint = a.all(Mark)[-1].cursor, a.all(SdsMessage)[7].retrieval_hint
            assert hint is not None
        async with at(edge, 1) as a:
            await a.joins("room", "a", cursor=cursor)
            # The index is read in its own time; whoever is in the channel is told what it ends with.
            await until(lambda: a.all(Head) and a.all(Head)[-1].newest[-1:] == ((29, "m29"),))
            await a.say(
                Fetch("room", 1, (HistoryEntry("m3"), HistoryEntry("m7", hint), HistoryEntry("nothing")))
            )
            (answer,) = await a.hears(Fetched)
            assert sorted(wire for wire, _ in answer.wires) == sorted((wires[3], wires[7]))
            store(kafka, "room", message("x", "trailing", 99))
            await until(lambda: a.all(Head)[-1].newest[-1] == (99, "trailing"))
            assert not a.all(SdsMessage)


async def test_the_job_is_answered_into_sds_in(tmp_path: Path, kafka: KafkaSettings) -> None:
    peer_wire = message("x", "held", 1)
    async with two(tmp_path, kafka) as (edge, other), at(edge, 1) as a, at(other, 2) as b:
        await a.joins("room", "a")
        await b.joins("room", "b")
        request = SdsFetchRecord("spec", (HistoryEntry("held"),), 2)
        produce(kafka, "sds.fetch", "room", request.encode())
        (question,) = await a.hears(Fetch)
        await a.say(Fetched("room", question.request, ((peer_wire, None),)))
        await until(lambda: [frame.wire for frame in b.all(SdsMessage)] == [peer_wire])
        assert [SdsInRecord.decode(value).wire for _, value in read_all(kafka, "sds.in")] == [peer_wire]


async def test_what_the_driver_counts_is_told(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with running(connector(tmp_path, kafka, sds=QUICK, metrics_port=0)) as edge, at(edge, 1) as a:
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
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    own(kafka, ben=1)
    async with (
        running(connector(tmp_path, kafka, sds=QUICK)) as edge,
        at(edge, 1) as ben,
        at(edge, 2) as stranger,
    ):
        await stranger.say(Join("room", "spec", "ben", hosted=True))
        assert (await stranger.hears(Refused))[0].code == "sds.join.owned"
        await ben.joins("room", "ben", hosted=True)
        own(kafka, ben=2)
        assert (await ben.hears(Refused))[0].code == "sds.join.owned"
        await stranger.joins("room", "ben", hosted=True, cursor=b"")
        produce(kafka, "sds.events", "room", event(1, "sent", "ben").encode())
        await stranger.hears(EventFrame)
        assert not ben.all(EventFrame)
