"""Thin clients over real QUIC: commands until they are accepted, events once and in order, from anywhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from culm_connectors.sds.errors import CommandRefusedError, JoinRefusedError, SdsEdgeError
from culm_connectors.sds.participants.client import FROM_THE_BEGINNING, EventPosition, SdsClient
from culm_connectors.transport import Address
from culm_models.keys import KeyPair
from culm_models.sds.frames.messages import EventFrame
from culm_models.sds.wire.messages import content_message_id
from tests.support.connectors.quic import lossy_proxy, quick_settings
from tests.support.process.waiting import until, while_working
from tests.support.sds.edge import MemoryBackbone, event, serving


def client(name: str, **options: Any) -> SdsClient:
    return SdsClient(
        "room",
        key_pair=KeyPair.from_private_key(name.encode().ljust(32, b"-")),
        participant_id=name,
        transport=quick_settings(silence_timeout_s=1.5, ping_interval_s=0.5, probe_timeout_s=0.5),
        **options,
    )


@contextlib.asynccontextmanager
async def online(
    address: Address, name: str, **options: Any
) -> AsyncIterator[tuple[SdsClient, list[EventFrame]]]:
    heard: list[EventFrame] = []
    async with client(name, **options) as made:
        made.listeners.append(heard.append)
        made.dial(address)
        async with while_working():
            await made.joined.wait()
        yield made, heard


async def test_what_is_sent_is_a_command_with_the_id_that_the_client_knows() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address), online(address, "alice") as (alice, _):
        message_id = await alice.send(b"hello")
        record = backbone.commands[-1][1]
        assert (record.kind, record.content, record.participant_id) == ("send", b"hello", "alice")
        assert message_id == content_message_id("room", "alice", record.token, b"hello")


async def test_a_command_is_repeated_with_its_token_until_it_is_accepted() -> None:
    backbone = MemoryBackbone()
    async with client("alice") as alice:
        sending = asyncio.create_task(alice.send(b"hello"))
        async with serving(backbone) as (_, address):
            backbone.gate.clear()
            alice.dial(address)
            async with while_working():
                await alice.joined.wait()
        assert not sending.done()
        backbone.gate.set()
        async with serving(backbone) as (_, address):
            alice.dial(address)
            async with while_working():
                message_id = await sending
        tokens = {record.token for _, record in backbone.commands if record.kind == "send"}
        (token,) = tokens
        assert message_id == content_message_id("room", "alice", token, b"hello")


async def test_a_message_of_its_own_is_acknowledged_or_given_up() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address), online(address, "alice") as (alice, _):
        first, second, third = [await alice.send(b"hello") for _ in range(3)]
        tokens = [record.token for _, record in backbone.commands if record.kind == "send"]
        for number, (kind, message_id, details) in enumerate(
            [
                ("acknowledged", first, {}),
                ("gave_up", second, {}),
                ("rejected", "", {"token": tokens[2], "code": "sds.outgoing.full", "reason": "full"}),
            ],
            1,
        ):
            from culm_topics.sds.records import SdsEventRecord

            backbone.tell("room", SdsEventRecord(number, kind, "alice", message_id, 1, details))  # type: ignore[arg-type]
        async with while_working():
            assert await alice.acknowledged(first)
            assert not await alice.acknowledged(second)
            assert not await alice.acknowledged(third)


async def test_events_are_heard_once_through_broken_connections_and_at_other_edges() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone) as (_, first),
        serving(backbone, connector=b"edge-two") as (_, second),
        lossy_proxy(first, seed=3) as proxy,
        online(proxy.address, "alice") as (alice, heard),
    ):
        for number in range(1, 31):
            backbone.tell("room", event(number))
            if number % 10 == 4:
                proxy.partition()
                await until(lambda: not alice.joined.is_set())
            if number % 10 == 8:
                proxy.heal()
                proxy.rebind()
                async with while_working():
                    await alice.joined.wait()
        await until(lambda: len(heard) == 30)
        assert [event.number for event in heard] == list(range(1, 31))
        position = alice.position
        backbone.tell("room", event(31))
        async with online(second, "alice", position=position) as (_, again):
            await until(lambda: again)
            assert [event.number for event in again] == [31]


async def test_a_client_may_begin_anywhere() -> None:
    backbone = MemoryBackbone()
    for number in range(1, 6):
        backbone.tell("room", event(number))
    async with (
        serving(backbone) as (_, address),
        online(address, "a", position=FROM_THE_BEGINNING) as (_, everything),
        online(address, "b", position=EventPosition(3)) as (_, later_events),
        online(address, "c") as (_, nothing),
    ):
        await until(lambda: len(everything) == 5 and len(later_events) == 2)
        backbone.tell("room", event(6))
        await until(lambda: nothing and len(everything) == 6 and len(later_events) == 3)
        assert [event.number for event in nothing] == [6]


async def test_an_ephemeral_message_needs_a_connection_and_a_profile_that_has_them() -> None:
    backbone = MemoryBackbone(decides=False)
    async with serving(backbone) as (_, address):
        async with client("alice") as alice:
            with pytest.raises(SdsEdgeError):
                await alice.send(b"typing", ephemeral=True)
        async with (
            online(address, "alice") as (alice, _),
            online(address, "bob") as (_, heard),
            online(address, "nim", profile="nim") as (nim, _),
        ):
            await alice.send(b"typing", ephemeral=True)
            await until(lambda: heard)
            assert (heard[0].content, heard[0].number) == (b"typing", None)
            with pytest.raises(CommandRefusedError):
                await nim.send(b"typing", ephemeral=True)


async def test_what_the_edge_refuses_is_an_error() -> None:
    async with serving(MemoryBackbone()) as (_, address), online(address, "alice") as (alice, _):
        with pytest.raises(CommandRefusedError) as raised:
            await alice.send(b"")
        assert "sds.content.empty" in str(raised.value)


async def test_a_client_that_may_not_join_is_told() -> None:
    async with serving(MemoryBackbone(), permit=lambda *_: False) as (_, address), client("alice") as alice:
        with pytest.raises(JoinRefusedError):
            async with while_working():
                await alice.dial(address)


async def test_a_hosted_participant_ends_only_when_that_is_said() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address):
        async with online(address, "alice") as (alice, _):
            await alice.leave()
        async with online(address, "alice") as (alice, _):
            await alice.leave(final=True)
            await until(lambda: backbone.commands[-1][1].kind == "leave")
        assert [record.kind for _, record in backbone.commands] == ["join", "join", "leave"]
