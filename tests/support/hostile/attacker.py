"""A hostile process: one attack on one connector, until it is killed.

    python -m tests.support.hostile.attacker NAME HOST PORT HTTP_PORT BAMBOO_PORT

PORT has QUIC by UDP and Chotki by TCP; HTTP_PORT is that of the HTTP door of DAGs, BAMBOO_PORT that of Bamboo
by TCP.

It runs beside the honest peers and not among them, so that what it costs itself is not taken for what it does
to others. An attack whose connection is closed comes again, as an attacker would.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

from culm_connectors.p2panda.settings import ALPN
from culm_connectors.transport import Address, Identity, TransportError, TransportSettings
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_models.keys import KeyPair
from culm_models.p2panda.wire.messages import Announce, Have, Message, SyncRequest
from culm_models.sds.frames.messages import Frame
from tests.support.hostile.attacks import (
    announcements,
    empty_containers,
    forged_entries,
    forked_logs,
    invented_schemas,
    unknown_heights,
)
from tests.support.hostile.bamboo import BAMBOO_ATTACKS
from tests.support.hostile.bymux import BYMUX_ATTACKS
from tests.support.hostile.chotki import CHOTKI_ATTACKS, SRC, handshake, in_pieces
from tests.support.hostile.dag import DAG_ATTACKS
from tests.support.hostile.http import HTTP_ATTACKS
from tests.support.hostile.quic import flood, hostile_client, keyed_attacks, stranger_attacks
from tests.support.hostile.remote import Hostile, hostile
from tests.support.hostile.sds import (
    another_profile_first,
    big_filter_joins,
    deaf_readers,
    forged_messages,
    join_and_leave,
    take_over,
)
from tests.support.hostile.source_address import under_keys
from tests.support.p2panda.logs import SCHEMA, make_log
from tests.support.sds.edge import Remote, remote

Attack = Callable[[Address], Awaitable[None]]
CHANNEL = "tide"
"""The channel in which honest participants talk while it is attacked."""
VICTIM = "ben"
_REFUSED_PAUSE_S = 0.1
_RATES = {"sparse-crypto": 60.0, "far-crypto": 60.0, "undecryptable": 1_500.0}
_KEYED_RATES = {"sparse-stream": 400.0, "pings": 4_000.0}
_SLICE_S = 0.005
_FOR_EVER = 10.0**9


def key() -> KeyPair:
    """A key that nobody has seen."""
    return KeyPair.generate(os.urandom(32))


async def stranger(name: str, address: Address) -> None:
    """Datagrams without a key behind them."""
    await flood(address, stranger_attacks[name](), per_second=_RATES[name], seconds=_FOR_EVER)


async def keyed(name: str, address: Address) -> None:
    """Packets of an established connection."""
    identity = Identity.from_private_key(key().private_key)
    settings = TransportSettings(datagram_bytes="auto")
    packets, loop = keyed_attacks[name](), asyncio.get_running_loop()
    async with hostile_client(address, identity, settings, alpn=ALPN) as client:
        begun_s, sent = loop.time(), 0
        while client.connection.close_reason is None:
            while sent < (loop.time() - begun_s) * _KEYED_RATES[name]:
                client.send(next(packets))
                sent += 1
            await asyncio.sleep(_SLICE_S)


@asynccontextmanager
async def p2panda(address: Address) -> AsyncIterator[Hostile]:
    async with hostile(address, key()) as attacker:
        yield attacker


async def messages(make: Callable[[], Iterator[Message]], address: Address) -> None:
    """Well-formed p2panda messages, as fast as they are taken."""
    async with p2panda(address) as attacker:
        for message in make():
            await attacker.say(message)
            if attacker.connection.close_reason is not None:
                return


async def expensive_cbor(address: Address) -> None:
    data = empty_containers(2 * 1024 * 1024)
    async with p2panda(address) as attacker:
        while attacker.connection.close_reason is None:
            await attacker.send(data)


async def invalid_signatures(address: Address) -> None:
    """Entries that are sound but for their signatures, in a session that asked for them."""
    log = make_log(key(), 0, 8)
    async with p2panda(address) as attacker:
        await attacker.say(Announce(1, 1, (SCHEMA,)), SyncRequest(0, 0, (SCHEMA,)), Have(0, ()))
        for data in forged_entries(log):
            await attacker.send(data)
            if attacker.connection.close_reason is not None:
                return


async def forks(address: Address) -> None:
    """Both branches of many logs, by their author, over two connections."""
    from culm_models.p2panda.wire.codec import encode_entry_message

    branches = forked_logs(key(), 100, 4)
    async with p2panda(address) as first, p2panda(address) as second:
        for attacker, which in ((first, 0), (second, 1)):
            await attacker.say(Announce(1, 1, (SCHEMA,)), SyncRequest(0, 0, (SCHEMA,)), Have(0, ()))
            for fork in branches:
                for entry in fork[which]:
                    await attacker.send(encode_entry_message(0, entry.entry_bytes, entry.payload_bytes))
        await asyncio.sleep(1)


def _invented() -> Iterator[Message]:
    for number in itertools.count(1):
        yield Announce(1, number, invented_schemas(1_024, first=1_024 * number))


def _unknown_heights() -> Iterator[Message]:
    yield Announce(1, 1, (SCHEMA,))
    for number in itertools.count():
        yield SyncRequest(2 * number, 0, (SCHEMA,))
        yield Have(2 * number, unknown_heights(20_000, first=20_000 * number))


@asynccontextmanager
async def sds(address: Address) -> AsyncIterator[Remote]:
    async with remote(address, Identity.from_private_key(key().private_key)) as attacker:
        yield attacker


async def frames(make: Callable[[], Iterator[Frame]], address: Address) -> None:
    """Frames of the SDS edge protocol, as fast as they are taken."""
    async with sds(address) as attacker:
        for frame in make():
            await attacker.say(frame)
            if attacker.connection.close_reason is not None:
                return


async def joins_and_leaves(final: bool, address: Address) -> None:
    async with sds(address) as attacker:
        while attacker.connection.close_reason is None:
            await join_and_leave(attacker, 1_000, channel_id=CHANNEL, hosted=final, final=final)


async def readers_that_never_read(address: Address) -> None:
    async with deaf_readers(address, 40, channel_id=CHANNEL):
        await asyncio.sleep(_FOR_EVER)


async def chotki(packets: Callable[[], Iterator[bytes]], address: Address) -> None:
    """Packets behind a handshake over TCP, as fast as they are taken; what the edge says is dropped."""
    channel = await connect_tcp(address, TcpSettings())
    reading = asyncio.create_task(_drop(channel))
    try:
        await channel.write(handshake())
        for piece in in_pieces(packets()):
            await channel.write(piece)
    finally:
        channel.abort()
        await reading


async def _drop(channel: ByteChannel) -> None:
    with contextlib.suppress(TransportError):
        while await channel.read():
            pass


async def chotki_deaf_reader(address: Address) -> None:
    """One such replica."""
    channel = await connect_tcp(address, TcpSettings(receive_bound_bytes=1_024))
    try:
        await channel.write(handshake(int.from_bytes(os.urandom(4), "big")))
        await channel.wait_closed()
    finally:
        channel.abort()


async def chotki_deaf_readers(address: Address) -> None:
    """Replicas that say what they lack and read nothing of it."""
    channels = [await connect_tcp(address, TcpSettings(receive_bound_bytes=1_024)) for _ in range(40)]
    try:
        for number, channel in enumerate(channels):
            await channel.write(handshake(SRC + number))
        await asyncio.sleep(_FOR_EVER)
    finally:
        for channel in channels:
            channel.abort()


ATTACKS: dict[str, Attack] = {
    **{name: partial(stranger, name) for name in stranger_attacks},
    **{name: partial(keyed, name) for name in keyed_attacks},
    "invented-schemas": partial(messages, _invented),
    "announcements": partial(messages, lambda: announcements(invented_schemas(10))),
    "unknown-heights": partial(messages, _unknown_heights),
    "expensive-cbor": expensive_cbor,
    "invalid-signatures": invalid_signatures,
    "forks": forks,
    "sds-join-leave": partial(joins_and_leaves, False),
    "sds-leave-final": partial(joins_and_leaves, True),
    "sds-deaf-readers": readers_that_never_read,
    "sds-big-filters": partial(frames, lambda: big_filter_joins(700)),
    "sds-take-over": partial(
        frames, lambda: itertools.chain.from_iterable(take_over(CHANNEL, VICTIM) for _ in itertools.count())
    ),
    "sds-forged-senders": partial(frames, lambda: forged_messages(CHANNEL, VICTIM, 10_000, lamport=1)),
    "sds-profile-first": partial(frames, lambda: another_profile_first("quiet", lamport=1)),
    **{name: partial(chotki, packets) for name, packets in CHOTKI_ATTACKS.items()},
    "chotki-deaf-readers": chotki_deaf_readers,
    "chotki-deaf-addresses": under_keys(chotki_deaf_reader, 40, 40),
    **BAMBOO_ATTACKS,
    **DAG_ATTACKS,
    **HTTP_ATTACKS,
    **BYMUX_ATTACKS,
}


async def attack(name: str, address: Address) -> None:
    """Attack again and again, for ever; the first word on standard output says that it begins."""
    print(name, flush=True)
    while True:
        with contextlib.suppress(TransportError, AssertionError):
            await ATTACKS[name](address)
        await asyncio.sleep(_REFUSED_PAUSE_S)


if __name__ == "__main__":
    _, chosen, host, *ports = sys.argv
    which = 1 if chosen in HTTP_ATTACKS else 2 if chosen in BYMUX_ATTACKS else 0
    asyncio.run(attack(chosen, (host, int(ports[which]))))
