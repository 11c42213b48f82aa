"""Honest pairs of DAGs: over QUIC, and over the HTTP door."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from culm_connectors.dag.author import append_shards
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.store.folder import DagFolder
from culm_infra.demo.dag.door import DoorAnswer, DoorClient
from culm_infra.demo.kit.processes import DemoError
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import car_header, car_section
from culm_models.dag.replica.codec import encode_append
from tests.support.hostile.honest_pair import ARRIVAL_TIMEOUT_S, LOOK_S, HonestPair, Places, connected
from tests.support.process.waiting import while_working


@asynccontextmanager
async def dag_quic(at: Places, folder: Path) -> AsyncIterator[HonestPair]:
    space = os.urandom(32)
    under_way: set[Cid] = set()

    def held(wanted: Iterable[Cid], folder: DagFolder) -> list[Cid]:
        return [cid for cid in wanted if folder.has_shard(cid)]

    async def publish() -> Cid:
        cid, data = _small_shard()
        under_way.add(cid)
        await writer.work(lambda folder: folder.add_shard(space, cid, data))
        await writer.work(lambda folder: append_shards(folder, space, [cid], now=int(time.time())))
        pair.traces[cid] = data
        return cid

    async def same_state() -> bool:
        heads = [
            await member.work(lambda folder: frozenset(folder.dag_heads(space)))
            for member in (writer, reader)
        ]
        return heads[0] == heads[1]

    pair = HonestPair(publish, same_state)

    async def look() -> None:
        """Ask the second member's folder for what is under way, for ever.

        All that it holds would take the longer, the longer the pair has published.
        """
        while True:
            for cid in await reader.work(partial(held, tuple(under_way))):
                pair.arrived(cid)
                under_way.remove(cid)
            await asyncio.sleep(LOOK_S)

    async with DagPeer.open(folder / "writer") as writer, DagPeer.open(folder / "reader") as reader:
        calls = [
            member.keep_following(place.address, [space])
            for member, place in zip((writer, reader), at, strict=True)
        ]
        async with connected(pair, *calls, look()):
            yield pair


@asynccontextmanager
async def dag_http(at: Places, folder: Path) -> AsyncIterator[HonestPair]:
    space = os.urandom(32).hex()
    writer, reader = (
        DoorClient(*place.http, name) for name, place in zip(("writer", "reader"), at, strict=True)
    )

    async def publish() -> Cid:
        shard, data = _small_shard()
        await _accepted(writer, "PUT", f"/shards/{shard}?space={space}", data)
        append = encode_append([shard])
        car = car_header([]) + car_section(append.cid, append.data)
        await _accepted(writer, "POST", f"/spaces/{space}/nodes", car)
        looking.add(asyncio.create_task(look(shard)))
        pair.traces[shard] = data
        return shard

    pair = HonestPair(publish)
    looking: set[asyncio.Task[None]] = set()

    async def look(shard: Cid) -> None:
        """Ask the door for a shard until it is there."""
        while (await _asked(reader, "HEAD", f"/shards/{shard}")).status != 200:  # noqa: ASYNC110 - far away
            await asyncio.sleep(LOOK_S)
        pair.arrived(shard)

    try:
        yield pair
    finally:
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)


async def _accepted(client: DoorClient, method: str, path: str, body: bytes) -> None:
    """A request that the door accepts, at once or when it is asked again: others may take its places."""
    async with while_working(limit_s=ARRIVAL_TIMEOUT_S):
        while (answer := await _asked(client, method, path, body)).status >= 400:
            assert answer.status in (429, 503, 507), (path, answer.status, answer.body)
            await asyncio.sleep(LOOK_S)


async def _asked(client: DoorClient, method: str, path: str, body: bytes | None = None) -> DoorAnswer:
    """The answer of a door; 503 while nothing listens there, or the answer was cut off."""
    try:
        return await client.ask(method, path, body)
    except DemoError as error:
        return DoorAnswer(503, {}, str(error).encode())


def _small_shard() -> tuple[Cid, bytes]:
    """A shard of one block that nobody has."""
    block = os.urandom(1_000)
    cid = cid_of(RAW, block)
    data = car_header([cid]) + car_section(cid, block)
    return cid_of(CAR, data), data
