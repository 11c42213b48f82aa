"""A replica read whole over every transport: what is copied is what it holds, and it holds nothing more."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_connectors.chotki.dial import dialled, stream_for
from culm_connectors.chotki.errors import CopyIncomplete
from culm_connectors.chotki.reference_peer.copy import ReplicaCopy, copy_replica
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.chotki.settings import ALPN
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import Identity, TransportError, TransportSettings
from culm_connectors.transport.interface import Connection
from culm_connectors.transport.memory import memory_pair
from culm_connectors.transport.quic import serve
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.packets.parcels import write_parcel
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from tests.models.chotki.recorded import recorded, store_of
from tests.support.connectors.channels import SERVER_NAME, TCP, Certificates
from tests.support.process.waiting import while_working

LOOPBACK = ("127.0.0.1", 0)
QUIC = TransportSettings(datagram_bytes=1200)


def identity() -> Identity:
    return Identity.from_private_key(secrets.token_bytes(32))


def peer() -> ReplicaPeer:
    """What a Go replica recorded: a class, and objects with fields of every type."""
    before = recorded("full_connector_empty_listener")["before"]["connector"]
    return ReplicaPeer(Replica(0xB, store_of(before)))


@contextlib.asynccontextmanager
async def served(scheme: str, peer: ReplicaPeer, folder: Path) -> AsyncIterator[tuple[str, TlsFiles]]:
    """The replica at an address, and what a caller needs for TLS."""

    async def over_quic(connection: Connection) -> None:
        await peer.run_session(await stream_for(connection))

    if scheme == "quic":
        async with serve(LOOPBACK, identity(), QUIC, over_quic, alpn=ALPN) as quic:
            yield f"quic://127.0.0.1:{quic.address[1]}", TlsFiles()
        return
    certificates = Certificates(folder)
    tls = certificates.server if scheme == "tls" else None
    async with serve_tcp(LOOPBACK, peer.run_session, TCP, tls=tls) as listener:
        files = TlsFiles(ca=certificates.ca, server_name=SERVER_NAME)
        yield f"{scheme}://127.0.0.1:{listener.address[1]}", files


@pytest.mark.parametrize("scheme", ["tcp", "tls", "quic"])
async def test_a_copy_is_all_that_a_replica_holds(scheme: str, tmp_path: Path) -> None:
    source = peer()
    before = source.replica.store.values()
    seen: list[int] = []
    async with served(scheme, source, tmp_path) as (url, tls), dialled(url, identity(), tls, QUIC) as channel:
        copy = await copy_replica(channel, progress=seen.append)
    assert copy.store == before == source.replica.store.values()
    assert copy.t == Id.make(0xB, 5)
    assert copy.unreadable == []
    assert len(copy.traces) == 41
    assert seen[-1] >= 600


async def copied(*answers: bytes, silence_s: float = 5.0) -> ReplicaCopy:
    """A copy of what these bytes say."""
    near, far = memory_pair()
    await far.write(b"".join(answers))
    far.finish()

    async def listen() -> None:
        while await far.read():
            pass

    listening = asyncio.create_task(listen())
    try:
        async with while_working():
            return await copy_replica(near, silence_s=silence_s)
    finally:
        near.abort()
        await asyncio.gather(listening, return_exceptions=True)


def stream() -> bytes:
    return bytes.fromhex(recorded("full_connector_empty_listener")["streams"]["1:connector"])


async def test_the_recorded_bytes_of_a_go_replica_are_copied() -> None:
    want = recorded("full_connector_empty_listener")["before"]["connector"]
    copy = await copied(stream())
    # What every replica holds from its first moment is not in this diff.
    own = {key: value for key, value in copy.store.items() if key[1:9] == (0xB).to_bytes(8, "big")}
    assert {key.hex(): value.hex() for key, value in own.items()}.items() <= want.items()
    assert len(own) == len([key for key in want if key[2:18] == f"{0xB:016x}"])


async def test_a_diff_that_ends_early_is_no_copy() -> None:
    whole = stream()
    for end in (0, 10, len(whole) - 1):
        with pytest.raises(CopyIncomplete):
            await copied(whole[:end])


async def test_a_replica_that_says_nothing_more_is_waited_for_so_long() -> None:
    near, _far = memory_pair()
    with pytest.raises(CopyIncomplete, match="sent nothing"):
        await copy_replica(near, silence_s=0.05)


async def test_what_is_refused_says_why() -> None:
    with pytest.raises(CopyIncomplete, match=r"chotki\.letter"):
        await copied(stream()[:35], record("Q", b"x"))


async def test_what_does_not_parse_is_named_and_left_out() -> None:
    whole = stream()
    at = Id.make(0xB, 9, 1)
    odd = write_parcel(Id.make(0xB, 5), Id(0xB, 0), [(object_key(at, "S"), b"\xff")])
    copy = await copied(whole[:35], odd, whole[35:])
    assert copy.unreadable == [(at, "S")]
    assert object_key(at, "S") not in copy.store


async def test_nobody_at_an_address_is_an_error_of_the_transport() -> None:
    async with serve_tcp(LOOPBACK, peer().run_session, TCP) as listener:
        port = listener.address[1]
    with pytest.raises(TransportError):
        async with dialled(f"tcp://127.0.0.1:{port}", identity(), TlsFiles(), QUIC):
            pass
