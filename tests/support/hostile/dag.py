"""What hostile peers of DAG replication say to an edge over QUIC, for ever, under many keys."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from culm_connectors.dag.settings import ALPN
from culm_connectors.transport import Address, CloseCode, Identity, TransportSettings
from culm_connectors.transport.interface import Connection, SendStream
from culm_connectors.transport.quic import connect
from culm_models.dag.blocks.cid import CAR, DAG_CBOR, cid_of
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.validation_rules import DEFAULT_RULES
from culm_models.dag.wire.codec import DagMessageReader, frame_of
from culm_models.dag.wire.messages import (
    FRAME_MAX,
    AckStatus,
    DagAck,
    DagBlocks,
    DagHello,
    DagMessage,
    DagOffer,
    DagWant,
)
from tests.support.hostile.source_address import under_keys

_LARGEST: Final = 128 * 1024**2
_SPACES: Final = 4_096
_ORPHANS: Final = 1_000
Answer = Callable[[DagWant], list[DagMessage]]


@asynccontextmanager
async def _said(
    address: Address, *first: DagMessage
) -> AsyncIterator[tuple[Connection, SendStream, DagMessageReader]]:
    """A connection on whose stream something was said, and a reader of what comes."""

    async def open_stream(connection: Connection) -> None:
        opened.append(await connection.open_stream(bidirectional=True))
        await opened[0].write(b"".join(map(frame_of, first)))

    opened: list[SendStream] = []
    connection = await connect(
        address,
        Identity.from_private_key(os.urandom(32)),
        None,
        TransportSettings(datagram_bytes="auto"),
        alpn=ALPN,
        speak_first=open_stream,
    )
    try:
        yield connection, opened[0], DagMessageReader()
    finally:
        connection.abort(CloseCode.NORMAL)
        await connection.close()


async def _talk(address: Address, answer: Answer, *first: DagMessage) -> None:
    """Say something, and answer every WANT, until the edge closes."""
    async with _said(address, *first) as (_, send, reader):
        receive = send.receive
        assert receive is not None, "a bidirectional stream"
        while data := await receive.read(1_048_576):
            for message in reader.feed(data):
                if isinstance(message, DagWant) and (answers := answer(message)):
                    await send.write(b"".join(map(frame_of, answers)))


def _hello(*spaces: bytes) -> DagHello:
    return DagHello(FRAME_MAX, spaces, DEFAULT_RULES.policy, DEFAULT_RULES.digest)


async def empty_offers(address: Address) -> None:
    """Large shards are offered, and each that is asked for is not here."""
    space = os.urandom(32)
    shards = tuple((cid_of(CAR, os.urandom(32)), _LARGEST) for _ in range(8))

    def answer(want: DagWant) -> list[DagMessage]:
        absent = tuple((cid, int(AckStatus.NOT_HERE), None) for cid, _ in want.shards)
        return [DagAck(space, absent)] if absent else []

    await _talk(address, answer, _hello(space), DagOffer(space, (), (), shards))


async def orphans(address: Address) -> None:
    """Nodes of one space that build on what nobody has."""
    space = bytes(32)
    nodes = [encode_append([], cid_of(DAG_CBOR, os.urandom(32))) for _ in range(_ORPHANS)]
    blocks = {node.cid: node.data for node in nodes}

    def answer(want: DagWant) -> list[DagMessage]:
        nodes = tuple(blocks[cid] for cid in want.nodes if cid in blocks)
        return [DagBlocks(space, nodes)] if nodes else []

    await _talk(address, answer, _hello(space), DagOffer(space, tuple(blocks), (), ()))


async def new_spaces(address: Address) -> None:
    """Spaces that nobody has, as many as one connection may name, and offers in each of them."""
    spaces = [os.urandom(32) for _ in range(_SPACES)]
    offers = [DagOffer(space, (cid_of(DAG_CBOR, space),), (), ()) for space in spaces]
    try:
        async with asyncio.timeout(1.0):
            await _talk(address, lambda _: [], _hello(*spaces), *offers)
    except TimeoutError:
        return


DAG_ATTACKS: Mapping[str, Callable[[Address], Awaitable[None]]] = {
    "dag-empty-offers": under_keys(empty_offers, 17, 5),
    "dag-orphans": under_keys(orphans, 10, 5),
    "dag-new-spaces": under_keys(new_spaces, 3, 1),
}
