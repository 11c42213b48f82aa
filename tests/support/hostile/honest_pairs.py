"""Honest pairs: a member publishes items at a connector, another one receives them; a row a protocol.

A row opens both members, at the same or at two connectors, and gives the pair; what happens beside them is up
to the caller. A member whose connection ends connects again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import Address
from culm_connectors.transport.reconnect import keep_trying
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.url import Url
from culm_models.bamboo.checks import CheckedEntry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadVerified
from culm_models.bamboo_p2p.settings import Direction
from culm_models.chotki import events as chotki_events
from culm_models.chotki.ids import OBJECT_KEY, Id, object_key
from culm_models.chotki.rdx import parse_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from culm_models.keys import KeyPair
from tests.support.chotki.seeded import store_that_holds_it
from tests.support.deployment.full_edge import FullEdge
from tests.support.deployment.members import member, new_schema, write_logs
from tests.support.hostile.honest_dag_pairs import dag_http, dag_quic
from tests.support.hostile.honest_pair import ARRIVAL_TIMEOUT_S, LOOK_S, HonestPair, Places, connected
from tests.support.process.waiting import until, while_working


@asynccontextmanager
async def _p2panda(at: Places, folder: Path) -> AsyncIterator[HonestPair]:
    schema = new_schema("honest")
    (log,) = write_logs(1, schema, [1])

    async def publish() -> int:
        await writer.write(log)
        number = len(log.entries)
        pair.traces[number] = log.entries[-1][0]
        return number

    async def same_state() -> bool:
        writers, readers = (dict(member.held(schema)) for member in (writer, reader))
        return writers == readers

    pair = HonestPair(publish, same_state)

    def note(entries: object) -> None:
        assert isinstance(entries, list | tuple)
        for entry in entries:
            assert isinstance(entry, CheckedEntry)
            pair.arrived(entry.entry.seq_num)

    async with member(folder, "writer", [schema]) as writer, member(folder, "reader", [schema]) as reader:
        reader.peer.stored_listeners.append(note)
        for client in (writer, reader):
            # A log that nobody holds reaches other connectors through the job `logs` alone.
            await client.add(log.entries)
        for client, place in zip((writer, reader), at, strict=True):
            client.dial(place.edge)
        await until(lambda: writer.is_live(schema) and reader.is_live(schema), limit_s=ARRIVAL_TIMEOUT_S)
        yield pair


@asynccontextmanager
async def _sds(at: Places, folder: Path) -> AsyncIterator[HonestPair]:
    numbers = count()

    async def publish() -> bytes:
        content = b"%d %s" % (next(numbers), os.urandom(8).hex().encode())
        await writer.send(content)
        pair.traces[content] = content
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
        for member, place in zip((writer, reader), at, strict=True):
            member.dial(place.address)
            async with while_working(limit_s=ARRIVAL_TIMEOUT_S):
                await member.joined.wait()
        yield pair


@asynccontextmanager
async def _chotki(at: Places, folder: Path) -> AsyncIterator[HonestPair]:
    # An edge may serve a large state, which is not what is measured here.
    writer = ReplicaPeer(Replica(0xA, store_that_holds_it(0xA, "writer")))
    fields = record("T", record("t", bytes([2])), b"S", b"\0", b"Text")
    class_id = writer.commit("C", Id(0, 0), fields)
    # Both begin with the same: without a job no epoch says what packets build on.
    reader = ReplicaPeer(Replica(0xB, MemoryStore(writer.replica.store.values()), name="reader"))
    under_way: set[Id] = set()

    async def publish() -> Id:
        text = os.urandom(8).hex()
        id = writer.commit("O", class_id, record("S", parse_text("S", f'"{text}"')))
        under_way.add(id)
        pair.traces[id] = text.encode()
        return id

    async def same_state() -> bool:
        held, written = [
            {key: value for key, value in member.replica.store.values().items() if key[0] == OBJECT_KEY}
            for member in (reader, writer)
        ]
        return written.items() <= held.items()

    def arrived(id: Id) -> None:
        if id in under_way:
            under_way.remove(id)
            pair.arrived(id)

    async def look() -> None:
        """Find what came with the diff of a session, which has no event for each object."""
        while True:
            for id in tuple(under_way):
                if reader.replica.store.get(object_key(id, "O")) is not None:
                    arrived(id)
            await asyncio.sleep(LOOK_S)

    pair, live = HonestPair(publish, same_state), 0

    def note(_: str, event: chotki_events.SessionEvent) -> None:
        nonlocal live
        match event:
            case chotki_events.PacketApplied(id=id):
                arrived(id)
            case chotki_events.PeerKnown():
                live += 1

    async with contextlib.AsyncExitStack() as stack:
        for member in (writer, reader):
            member.listeners.append(note)
        work = [
            _keep_calling(member, place.address) for member, place in zip((writer, reader), at, strict=True)
        ]
        for task in map(asyncio.create_task, (*work, look())):
            stack.push_async_callback(asyncio.wait, {task})
            stack.callback(task.cancel)
        await until(lambda: live >= 2, limit_s=ARRIVAL_TIMEOUT_S)
        yield pair


@asynccontextmanager
async def _bamboo(at: Places, folder: Path) -> AsyncIterator[HonestPair]:
    author = _key()
    log = (author.public_key, 0)

    async def publish() -> int:
        payload = os.urandom(100)
        number = (await writer.publish(author, 0, payload)).entry.seq_num
        pair.traces[number] = payload
        return number

    async def same_state() -> bool:
        held = [await member.read(lambda store: store.highest_entry(log)) for member in (writer, reader)]
        return held[0] == held[1]

    pair = HonestPair(publish, same_state)

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
            member.keep_connected(Url("quic", *place.address))
            for member, place in zip((writer, reader), at, strict=True)
        ]
        async with connected(pair, *calls):
            yield pair


async def _keep_calling(replica: ReplicaPeer, address: Address) -> None:
    """Keep a session with the edge, until cancelled."""

    async def attempt() -> bool:
        channel = await connect_tcp(address, TcpSettings())
        try:
            await replica.run_session(channel)
        finally:
            channel.abort()
        return True

    await keep_trying(attempt, name=f"{address[0]}:{address[1]}")


def _key() -> KeyPair:
    return KeyPair.generate(os.urandom(32))


HONEST_PAIRS: Final[Mapping[str, Callable[[Places, Path], AbstractAsyncContextManager[HonestPair]]]] = {
    "p2panda": _p2panda,
    "sds": _sds,
    "chotki": _chotki,
    "bamboo": _bamboo,
    "dag-quic": dag_quic,
    "dag-http": dag_http,
}


@asynccontextmanager
async def honest_pairs(
    target: FullEdge, folder: Path, receives_at: FullEdge | None = None
) -> AsyncIterator[dict[str, HonestPair]]:
    """A pair of every protocol, by its name; the second member may call another connector."""
    places = target, receives_at or target
    async with contextlib.AsyncExitStack() as stack:
        pairs = {}
        for name, opened in HONEST_PAIRS.items():
            pairs[name] = await stack.enter_async_context(opened(places, folder / name))
        yield pairs
