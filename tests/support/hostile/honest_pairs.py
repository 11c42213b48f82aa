"""Honest pairs: at one connector a member publishes items, and another one receives them; a row a protocol.

A row opens both members and gives the pair; what is attacked beside them is up to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.dag.author import append_shards
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import Address
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.url import Url
from culm_infra.demo.dag.door import DoorClient
from culm_models.bamboo.checks import CheckedEntry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadVerified
from culm_models.bamboo_p2p.settings import Direction
from culm_models.chotki import events as chotki_events
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import parse_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import car_header, car_section
from culm_models.dag.replica.codec import encode_append
from culm_models.keys import KeyPair
from tests.support.chotki.seeded import store_that_holds_it
from tests.support.deployment.members import member, new_schema, write_logs
from tests.support.deployment.world import Edge
from tests.support.process.waiting import until, while_working

ARRIVAL_TIMEOUT_S: Final = 120.0
_PAUSE_S: Final = 0.1
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Place:
    """The connector that both members call."""

    edge: Edge
    dag_http: Address

    @property
    def address(self) -> Address:
        """The one port that has QUIC by UDP, and Chotki by TCP."""
        return self.edge.address


@dataclass(slots=True)
class HonestPair:
    """Two members; `publish` makes one item at the first, and names it."""

    publish: Callable[[], Awaitable[Hashable]]
    arrived_s: dict[Hashable, float] = field(default_factory=dict)
    """When an item came to the second member, by the monotonic clock."""

    def arrived(self, item: Hashable) -> None:
        """An item is at the second member."""
        self.arrived_s.setdefault(item, time.monotonic())

    async def latencies(self, seconds: float) -> list[float]:
        """Publish for so long, and at least once: the seconds that each item took, once all have come."""
        sent_s: dict[Hashable, float] = {}
        end_s = time.monotonic() + seconds
        while not sent_s or time.monotonic() < end_s:
            at_s = time.monotonic()
            sent_s[await self.publish()] = at_s
            await asyncio.sleep(_PAUSE_S)
        await until(
            lambda: sent_s.keys() <= self.arrived_s.keys(),
            "all items at the second member",
            limit_s=ARRIVAL_TIMEOUT_S,
            progress=lambda: len(self.arrived_s),
        )
        return sorted(self.arrived_s[item] - at_s for item, at_s in sent_s.items())


@asynccontextmanager
async def _p2panda(target: Place, folder: Path) -> AsyncIterator[HonestPair]:
    schema = new_schema("honest")
    (log,) = write_logs(1, schema, [1])

    async def publish() -> int:
        await writer.write(log)
        return len(log.entries)

    pair = HonestPair(publish)

    def note(entries: object) -> None:
        assert isinstance(entries, list | tuple)
        for entry in entries:
            assert isinstance(entry, CheckedEntry)
            pair.arrived(entry.entry.seq_num)

    async with member(folder, "writer", [schema]) as writer, member(folder, "reader", [schema]) as reader:
        reader.peer.stored_listeners.append(note)
        await writer.add(log.entries)
        for client in (writer, reader):
            client.dial(target.edge)
        await until(lambda: writer.is_live(schema) and reader.is_live(schema), limit_s=ARRIVAL_TIMEOUT_S)
        yield pair


@asynccontextmanager
async def _sds(target: Place, folder: Path) -> AsyncIterator[HonestPair]:
    numbers = count()

    async def publish() -> bytes:
        content = b"%d" % next(numbers)
        await writer.send(content)
        return content

    pair = HonestPair(publish)
    async with contextlib.AsyncExitStack() as stack:
        writer, reader = [
            await stack.enter_async_context(
                SdsPeer(folder / name, "honest", key_pair=_key(), participant_id=name, durable=False)
            )
            for name in ("writer", "reader")
        ]
        reader.log_listeners.append(lambda logged: pair.arrived(logged.content))
        for member in (writer, reader):
            member.dial(target.address)
            async with while_working(limit_s=ARRIVAL_TIMEOUT_S):
                await member.joined.wait()
        yield pair


@asynccontextmanager
async def _chotki(target: Place, folder: Path) -> AsyncIterator[HonestPair]:
    # An edge may serve a large state, which is not what is measured here.
    writer = ReplicaPeer(Replica(0xA, store_that_holds_it(0xA, "writer")))
    number = record("I", parse_text("I", "1"))
    fields = record("T", record("t", bytes([2])), b"I", b"\0", b"Count")
    thing = writer.commit("O", writer.commit("C", Id(0, 0), fields), number)
    # Both begin with the same: without a job no epoch says what packets build on.
    reader = ReplicaPeer(Replica(0xB, MemoryStore(writer.replica.store.values()), name="reader"))

    async def publish() -> Id:
        return writer.commit("E", thing, record("f", b"\x01") + number)

    pair, live = HonestPair(publish), 0

    def note(_: str, event: chotki_events.SessionEvent) -> None:
        nonlocal live
        match event:
            case chotki_events.PacketApplied(id=id):
                pair.arrived(id)
            case chotki_events.PeerKnown():
                live += 1

    async with contextlib.AsyncExitStack() as stack:
        for member in (writer, reader):
            member.listeners.append(note)
            channel = await connect_tcp(target.address, TcpSettings())
            speaking = asyncio.create_task(member.run_session(channel))
            stack.push_async_callback(asyncio.wait, {speaking})
            stack.callback(channel.abort)
        await until(lambda: live == 2, limit_s=ARRIVAL_TIMEOUT_S)
        yield pair


@asynccontextmanager
async def _bamboo(target: Place, folder: Path) -> AsyncIterator[HonestPair]:
    author = _key()
    log = (author.public_key, 0)

    async def publish() -> int:
        return (await writer.publish(author, 0, os.urandom(100))).entry.seq_num

    pair = HonestPair(publish)

    def note(_: RemotePeer, event: BambooP2pEvent) -> None:
        if isinstance(event, PayloadVerified):
            pair.arrived(event.seq_num)

    async with (
        BambooPeer.open(folder / "writer", flavour=YAMF) as writer,
        BambooPeer.open(folder / "reader", flavour=YAMF) as reader,
    ):
        reader.listeners.append(note)
        await writer.follow(FollowedLog(log, direction=Direction.BOTH))
        await reader.follow(FollowedLog(log))
        calls = [
            asyncio.create_task(member.keep_connected(Url("quic", *target.address)))
            for member in (writer, reader)
        ]
        try:
            first = await publish()
            await until(lambda: first in pair.arrived_s, limit_s=ARRIVAL_TIMEOUT_S)
            yield pair
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def _dag_quic(target: Place, folder: Path) -> AsyncIterator[HonestPair]:
    space = os.urandom(32)
    under_way: set[Cid] = set()

    def held(wanted: Iterable[Cid], folder: DagFolder) -> list[Cid]:
        return [cid for cid in wanted if folder.has_shard(cid)]

    async def publish() -> Cid:
        cid, data = _small_shard()
        under_way.add(cid)
        await writer.work(lambda folder: folder.add_shard(space, cid, data))
        await writer.work(lambda folder: append_shards(folder, space, [cid], now=int(time.time())))
        return cid

    pair = HonestPair(publish)

    async def look() -> None:
        """Ask the second member's folder for what is under way, for ever.

        All that it holds would take the longer, the longer the pair has published.
        """
        while True:
            for cid in await reader.work(partial(held, tuple(under_way))):
                pair.arrived(cid)
                under_way.remove(cid)
            await asyncio.sleep(_LOOK_S)

    async with DagPeer.open(folder / "writer") as writer, DagPeer.open(folder / "reader") as reader:
        tasks = [asyncio.create_task(member.follow(target.address, [space])) for member in (writer, reader)]
        tasks.append(asyncio.create_task(look()))
        try:
            first = await publish()
            await until(lambda: first in pair.arrived_s, limit_s=ARRIVAL_TIMEOUT_S)
            yield pair
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _dag_http(target: Place, folder: Path) -> AsyncIterator[HonestPair]:
    space = os.urandom(32).hex()
    writer, reader = (DoorClient(*target.dag_http, name) for name in ("writer", "reader"))

    async def publish() -> Cid:
        shard, data = _small_shard()
        await _accepted(writer, "PUT", f"/shards/{shard}?space={space}", data)
        append = encode_append([shard])
        car = car_header([]) + car_section(append.cid, append.data)
        await _accepted(writer, "POST", f"/spaces/{space}/nodes", car)
        looking.add(asyncio.create_task(look(shard)))
        return shard

    pair = HonestPair(publish)
    looking: set[asyncio.Task[None]] = set()

    async def look(shard: Cid) -> None:
        """Ask the door for a shard until it is there."""
        while (await reader.ask("HEAD", f"/shards/{shard}")).status != 200:  # noqa: ASYNC110 - it is far away
            await asyncio.sleep(_LOOK_S)
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
        while (answer := await client.ask(method, path, body)).status >= 400:
            assert answer.status in (429, 507), (path, answer.status, answer.body)
            await asyncio.sleep(_LOOK_S)


def _key() -> KeyPair:
    return KeyPair.generate(os.urandom(32))


def _small_shard() -> tuple[Cid, bytes]:
    """A shard of one block that nobody has."""
    block = os.urandom(1_000)
    cid = cid_of(RAW, block)
    data = car_header([cid]) + car_section(cid, block)
    return cid_of(CAR, data), data


HONEST_PAIRS: Final[Mapping[str, Callable[[Place, Path], AbstractAsyncContextManager[HonestPair]]]] = {
    "p2panda": _p2panda,
    "sds": _sds,
    "chotki": _chotki,
    "bamboo": _bamboo,
    "dag-quic": _dag_quic,
    "dag-http": _dag_http,
}


@asynccontextmanager
async def honest_pairs(target: Place, folder: Path) -> AsyncIterator[dict[str, HonestPair]]:
    """A pair of every protocol, by its name."""
    async with contextlib.AsyncExitStack() as stack:
        pairs = {}
        for name, opened in HONEST_PAIRS.items():
            pairs[name] = await stack.enter_async_context(opened(target, folder / name))
        yield pairs
