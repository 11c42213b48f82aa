"""A broker that dies under SDS participants and comes back: nothing is lost, nothing is taken too early."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from culm_connectors.sds.participants.client import SdsClient
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import TransportSettings
from culm_infra.stack import Stack
from culm_models.keys import KeyPair
from culm_models.sds.settings import SdsSettings
from culm_topics.sds.records import SdsCommandRecord
from tests.support.edge import connector, running, topics
from tests.support.topic_io import read_all
from tests.support.waiting import until, while_working

pytestmark = pytest.mark.kafka

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
