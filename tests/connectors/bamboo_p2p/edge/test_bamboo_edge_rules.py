"""The rules of a policy at an edge: what it asks whom for, what it serves to whom, and who takes over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.protocol import BambooProtocol
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.transport import Identity
from culm_connectors.url import Url
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.events import RequestCancelled
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import RawPayload
from culm_models.bymux import CONTROL, DATA
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import EntryRecord
from tests.support.bamboo.edge import address, bamboo_edge, offering, peer_at, until_held
from tests.support.connectors.edge import Edge
from tests.support.hostile.bamboo import first_entry, hostile_channels, open_proposal
from tests.support.kafka.topic_io import read_all
from tests.support.process.waiting import until, while_working

pytestmark = pytest.mark.kafka

AUTHOR = KeyPair.generate(b"author of logs under rules")
KEY = AUTHOR.public_key.hex()
WHOLE, SPARSE, NOTIFIED, SMALL, SECRET, BROUGHT = ((AUTHOR.public_key, number) for number in range(6))
COUNT, TARGET, LIMIT = 30, 23, 100
POOL = {*lower_pool(TARGET), *upper_pool(TARGET)} & set(range(1, COUNT + 1))
HERE = Url("quic", "127.0.0.1", 0)
SOURCE = KeyPair.generate(b"a source with rules of its own")
RULES = f"""
[default]
read = ["{KEY}/0", "{KEY}/1"]
write = []

[peer."{SOURCE.public_key.hex()}"]
write = ["*"]

[[peer."{SOURCE.public_key.hex()}".follow]]
logs = ["{KEY}/0", "{KEY}/4"]

[[peer."{SOURCE.public_key.hex()}".follow]]
logs = ["{KEY}/1"]
take = "sparse"
from = {TARGET}
to = {TARGET}

[[peer."{SOURCE.public_key.hex()}".follow]]
logs = ["{KEY}/2"]
take = "notify"

[[peer."{SOURCE.public_key.hex()}".follow]]
logs = ["{KEY}/3"]
max_size = {LIMIT}
"""


def folder_of(edge: Edge) -> BambooPeer:
    """The peer that an edge is to those that it speaks with."""
    protocol = edge.protocols["bamboo_p2p"]
    assert isinstance(protocol, BambooProtocol)
    return protocol.flavours["yamf"].peer


async def until_it_holds(peer: BambooPeer, holds: Callable[[FolderStore], bool]) -> None:
    async with while_working():
        while not await peer.read(holds):  # noqa: ASYNC110 - what a store holds sets no event
            await asyncio.sleep(0.02)


def numbers(ranges: RangeSet) -> set[int]:
    return {number for start, end in ranges for number in range(start, end)}


def write(path: Path, *logs: LogKey, count: int = COUNT) -> None:
    """Logs of `COUNT` entries; every third payload is over `LIMIT`."""
    store = FolderStore(path, YAMF)
    with store.exclusively():
        for _, log_id in logs:
            for number in range(count):
                publish(store, AUTHOR, log_id, bytes([log_id, number]) * (LIMIT if number % 3 == 0 else 5))
    store.close()


@asynccontextmanager
async def sources(
    tmp_path: Path, *names: str, logs: tuple[LogKey, ...]
) -> AsyncIterator[dict[BambooPeer, Url]]:
    """Peers that hold these logs and wait to be called."""
    async with AsyncExitStack() as stack:
        urls = {}
        for name in names:
            write(tmp_path / name, *logs)
            identity = Identity.from_private_key(SOURCE.private_key if name == "source" else os.urandom(32))
            peer = await stack.enter_async_context(
                BambooPeer.open(tmp_path / name, flavour=YAMF, identity=identity)
            )
            urls[peer] = await stack.enter_async_context(peer.listen(HERE))
        yield urls


async def test_an_edge_asks_by_its_follow_list_and_serves_by_its_rules(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(RULES)
    logs = (WHOLE, SPARSE, NOTIFIED, SMALL, SECRET)
    async with sources(tmp_path, "source", logs=logs) as urls:
        (url,) = urls.values()
        connect = (f"{url}/yamf",)
        async with bamboo_edge(tmp_path / "edge", kafka, policy=policy, connect=connect) as edge:
            peer = folder_of(edge)
            await until_it_holds(
                peer,
                lambda store: (
                    store.payloads(WHOLE).covers(1, COUNT + 1)
                    and store.payloads(SECRET).covers(1, COUNT + 1)
                    and store.has_payload(SPARSE, TARGET)
                    and store.entries(SMALL).covers(1, COUNT + 1)
                    and store.has_payload(SMALL, COUNT)
                ),
            )
            assert await peer.read(lambda store: numbers(store.entries(SPARSE))) == POOL
            assert await peer.read(lambda store: not store.entries(NOTIFIED))
            small = [number for number in range(1, COUNT + 1) if (number - 1) % 3]
            assert await peer.read(lambda store: sorted(numbers(store.payloads(SMALL)))) == small

            at = address(edge)
            async with (
                peer_at(tmp_path / "reader", at, FollowedLog(WHOLE)) as reader,
                BambooPeer.open(tmp_path / "curious", flavour=YAMF) as curious,
                curious.connect(at) as remote,
            ):
                codes: list[str] = []
                curious.listeners.append(
                    lambda _, event: (
                        codes.append(event.code.name) if isinstance(event, RequestCancelled) else None
                    )
                )
                # A forbidden log, one that nobody has, and one that it would bring.
                await curious.publish(AUTHOR, 5, b"brought")
                await curious.ask(remote, FollowedLog(SECRET))
                await curious.ask(remote, FollowedLog((KeyPair.generate(b"nobody").public_key, 0)))
                await until(lambda: len(codes) == 2)
                assert codes[0] == codes[1]
                await curious.ask(remote, offering(BROUGHT))
                await until(lambda: len(codes) >= 3)
                assert len(set(codes)) == 1
                await until_held(reader, WHOLE, COUNT)
            assert await peer.read(lambda store: not store.entries(BROUGHT))


async def test_another_source_takes_over_from_one_that_stands_still(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'[[default.follow]]\nlogs = ["{KEY}/0"]\n')
    async with sources(tmp_path, "first", "second", logs=(WHOLE,)) as urls:
        first, _ = urls
        release, standing = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def stand_still(_: object) -> None:
            loop.call_soon_threadsafe(standing.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

        held_up = asyncio.create_task(first.work(stand_still))
        await standing.wait()
        connect = tuple(f"{url}/yamf" for url in urls.values())
        try:
            async with bamboo_edge(
                tmp_path / "edge", kafka, policy=policy, connect=connect, progress_timeout_s=0.5
            ) as edge:
                async with peer_at(tmp_path / "reader", address(edge), FollowedLog(WHOLE)) as reader:
                    await until_held(reader, WHOLE, COUNT)
                release.set()
        finally:
            release.set()
            await held_up


async def test_what_went_on_unverified_is_apologised_for_and_never_in_kafka(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    sound, half = bytes(200_000), 100_000
    log = (AUTHOR.public_key, 0)
    greedy = BambooPeerSettings(connection=BambooSettings(sends_greedily=True, accepts_greedy=True))
    quic = "quic://127.0.0.1:0/yamf"
    async with (
        bamboo_edge(tmp_path / "edge", kafka, greedy=True, listen=(quic, "tcp://127.0.0.1:0/yamf")) as edge,
        BambooPeer.open(tmp_path / "reader", flavour=YAMF, settings=greedy) as reader,
    ):
        kinds: list[str] = []
        reader.listeners.append(lambda _, event: kinds.append(event.kind))
        await reader.follow(FollowedLog(log, mandatory=True))
        calling = asyncio.create_task(reader.keep_connected(address(edge)))
        door = address(edge, "bamboo-p2p/2019-10")
        part = encode_data(RawPayload(half)) + b"\1" * half
        try:
            async with hostile_channels((door.host, door.port)) as channels:
                await channels.write(CONTROL, open_proposal(0, AUTHOR))
                await channels.write(DATA, first_entry(AUTHOR, sound) + part)
                await until_it_holds(reader, lambda store: store.unverified(log, 1).end_of_run(0) >= half)
                await channels.write(DATA, part)
                await until(lambda: "apology" in kinds)
            async with peer_at(tmp_path / "writer", address(edge), offering(log)) as writer:
                await writer.publish(AUTHOR, 0, sound)
                await until_held(reader, log, 1)
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
    records = [*await asyncio.to_thread(read_all, kafka, "entries")]
    assert {EntryRecord.decode(value).operation for _, value in records} <= {sound, b""}
    chunks = await asyncio.to_thread(read_all, kafka, "payloads")
    assert not any(b"\1" * 100 in (value or b"") for _, value in [*records, *chunks])
