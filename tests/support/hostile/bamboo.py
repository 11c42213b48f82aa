"""What a hostile peer of Bamboo Point-2-Point says to an edge, over QUIC, for ever."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.dial import dial
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.transport import Address, Identity
from culm_connectors.url import Url
from culm_models.bamboo.entry import decode_entry, sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.bamboo_p2p.wire.control import encode_control, encode_setup
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import (
    MAX_SIZE,
    Adjust,
    CompressedPayload,
    Eagerness,
    Grant,
    Propose,
    RawPayload,
    Setup,
    Switch,
)
from culm_models.bymux import CONTROL, DATA
from culm_models.keys import KeyPair
from culm_models.lzfoo import Compressor
from tests.support.hostile.source_address import under_keys

_AT_ONCE = 2_000
_PROPOSED_AT_ONCE = 64
_MESSAGE_MAX = 16 * 1024**2
_HEARD_S = 0.2
"""So long a proposal is on its way before data for it goes out."""


def open_proposal(id: int, author: KeyPair, eagerness: Eagerness = Eagerness.NOTIFY) -> bytes:
    """An open range of a log, from its first entry on."""
    return encode_control(Propose(id, author.public_key, 0, 1, 1, 0, MAX_SIZE, None, eagerness))


def _author() -> KeyPair:
    return KeyPair.generate(os.urandom(32))


@asynccontextmanager
async def hostile_channels(
    address: Address, *, reads: bool = True, private_key: bytes | None = None
) -> AsyncIterator[TwoChannels]:
    """Both channels of a connection whose owner has said its setup; what comes is thrown away."""
    url, identity = Url("quic", *address), Identity.from_private_key(private_key or os.urandom(32))
    channels = await dial(url, YAMF, identity, BambooPeerSettings())
    tasks = []

    async def throw_away(lane: int) -> None:
        while await channels.read(lane):
            pass

    try:
        await channels.write(CONTROL, encode_setup(Setup(True, True, 65_536, 65_536)))
        await channels.write(CONTROL, encode_control(Grant(2**20)))
        if reads:
            tasks = [asyncio.create_task(throw_away(lane)) for lane in (CONTROL, DATA)]
        yield channels
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await channels.close(None)


async def proposals(address: Address) -> None:
    """Logs that nobody has are asked for, as many at a time as are allowed."""
    async with hostile_channels(address) as channels:
        for request in range(_PROPOSED_AT_ONCE):
            await channels.write(CONTROL, open_proposal(2 * request, _author(), Eagerness.ALL))
        await asyncio.sleep(_HEARD_S)


async def deaf(address: Address) -> None:
    """Requests begin and change, and nothing of the answers is read."""
    async with hostile_channels(address, reads=False) as channels:
        await channels.write(CONTROL, open_proposal(0, _author()))
        for number in itertools.count():
            adjusts = (Adjust(0, end=None, min_size=0, max_size=number % 1_000) for number in range(_AT_ONCE))
            await channels.write(CONTROL, b"".join(map(encode_control, adjusts)))
            await channels.write(CONTROL, open_proposal(2 * (number % 32 + 1), _author()))


async def adjusts(address: Address) -> None:
    """One setting of a request again and again: nothing is to be done about any of them."""
    message = encode_control(Adjust(0, eagerness=Eagerness.NOTIFY)) * _AT_ONCE
    async with hostile_channels(address) as channels:
        await channels.write(CONTROL, open_proposal(0, _author()))
        while True:
            await channels.write(CONTROL, message)


async def switches(address: Address) -> None:
    """Data that says nothing: what follows is about the request that it was about."""
    message = encode_data(Switch(0)) * _AT_ONCE
    async with hostile_channels(address) as channels:
        await channels.write(CONTROL, open_proposal(0, _author()))
        await asyncio.sleep(_HEARD_S)
        while True:
            await channels.write(DATA, message)


def first_entry(author: KeyPair, payload: bytes) -> bytes:
    """The metadata of a log's first entry, for request 0."""
    entry_bytes = sign_entry(author, 0, 1, payload, backlink=None, skiplink=None, flavour=YAMF)
    entry = decode_entry(entry_bytes, YAMF)
    held_entry = HeldEntry(entry, entry_bytes, YAMF.hash(entry_bytes))
    return encode_data(Switch(0)) + encode_metadata(held_entry, with_backlink=False)


async def tiny_parts(address: Address) -> None:
    """A large payload byte by byte."""
    author, size = _author(), 4_000_000
    async with hostile_channels(address) as channels:
        await channels.write(CONTROL, open_proposal(0, author))
        await asyncio.sleep(_HEARD_S)
        await channels.write(DATA, first_entry(author, bytes(size)))
        part = (encode_data(RawPayload(1)) + b"\0") * _AT_ONCE
        for _ in range(size // _AT_ONCE - 1):
            await channels.write(DATA, part)


async def bombs(address: Address) -> None:
    """Some hundred bytes that stand for as much as one message may stand for."""
    author, payload = _author(), bytes(_MESSAGE_MAX)
    compressed = Compressor(65_536).compress(payload) or b""
    async with hostile_channels(address) as channels:
        await channels.write(CONTROL, open_proposal(0, author))
        await asyncio.sleep(_HEARD_S)
        head = encode_data(CompressedPayload(len(payload), len(compressed)))
        await channels.write(DATA, first_entry(author, payload) + head + compressed)
        await asyncio.sleep(_HEARD_S)


async def forged(address: Address) -> None:
    """Entries that are sound but for their signatures."""
    author = _author()
    data = bytearray(first_entry(author, b"x"))
    data[-1] ^= 1
    async with hostile_channels(address) as channels:
        await channels.write(CONTROL, open_proposal(0, author))
        await asyncio.sleep(_HEARD_S)
        await channels.write(DATA, bytes(data))
        await asyncio.sleep(_HEARD_S)


async def entries(address: Address) -> None:
    """A log of the attacker's own that grows without end, by the smallest entries there are."""
    author = _author()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            BambooPeer.open(Path(folder), flavour=YAMF) as peer,
            peer.connect(Url("quic", *address)) as remote,
        ):
            await remote.propose(
                RequestedRange(
                    author.public_key, 0, 1, lower=1, eagerness=Eagerness.NOTIFY, direction=Direction.PUSH
                )
            )
            while not remote.ended.is_set():
                await peer.publish(author, 0, b"")


def _mutated(seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    sound = [
        open_proposal(0, _author()),
        encode_control(Adjust(0, eagerness=Eagerness.NOTIFY)),
        encode_control(Grant(3)),
        encode_data(Switch(0)),
        first_entry(_author(), b"x"),
    ]
    while True:
        data = bytearray(chance.choice(sound))
        for _ in range(chance.randint(0, 2)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        yield bytes(data)


async def mutated(address: Address) -> None:
    """Messages that a few bits make into something else, on both channels."""
    messages = _mutated(int.from_bytes(os.urandom(4), "big"))
    async with hostile_channels(address) as channels:
        await channels.write(CONTROL, open_proposal(0, _author()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while True:
                    await channels.write(CONTROL, next(messages))
                    await channels.write(DATA, next(messages))


BAMBOO_ATTACKS: Mapping[str, Callable[[Address], Awaitable[None]]] = {
    "bamboo-proposals": proposals,
    "bamboo-deaf": deaf,
    "bamboo-adjusts": adjusts,
    "bamboo-switches": switches,
    "bamboo-tiny-parts": tiny_parts,
    "bamboo-four-keys": under_keys(tiny_parts, 4, 1),
    "bamboo-bombs": bombs,
    "bamboo-forged": forged,
    "bamboo-entries": entries,
    "bamboo-mutated": mutated,
}
