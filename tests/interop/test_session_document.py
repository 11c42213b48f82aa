"""docs/p2panda-quic.md shows a session as it is: its client's bytes get its server's bytes, on real QUIC."""

from __future__ import annotations

from pathlib import Path

from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.settings import ALPN
from culm_connectors.transport import CloseCode, Connection, ReceiveStream
from culm_connectors.transport.quic import connect
from culm_models.keys import KeyPair
from culm_models.p2panda.wire.codec import decode
from culm_models.p2panda.wire.messages import Announce, EntryMessage, SyncDone, SyncRequest
from tests.interop.session_document import said, written
from tests.support.connectors.quic import LOOPBACK, identity, quick_settings
from tests.support.p2panda.logs import SCHEMA, make_log, pairs
from tests.support.process.waiting import until, while_working

AUTHOR, SERVER, CLIENT = (KeyPair.from_private_key(bytes([number]) * 32) for number in (1, 2, 3))
DOCUMENT = list(said())


def server(folder: Path) -> ReferencePeer:
    """The peer that the document calls S."""
    return ReferencePeer(folder, key_pair=SERVER, schemas=[SCHEMA], durable=False)


async def take(stream: ReceiveStream, count: int) -> bytes:
    """So many bytes of a stream, or all up to its end."""
    parts = b""
    async with while_working():
        while len(parts) < count and (part := await stream.read(count - len(parts))):
            parts += part
    return parts


async def dial(peer_address: tuple[str, int]) -> Connection:
    """The connection of the client that the document calls C."""
    return await connect(peer_address, identity(3), SERVER.public_key, quick_settings(), alpn=ALPN)


def with_timestamp_of(announcement: bytes, shown: bytes) -> bytes:
    """The only bytes that differ from run to run: those of the server's clock."""
    said_now, said_then = decode(announcement), decode(shown)
    assert isinstance(said_now, Announce) and isinstance(said_then, Announce)
    return announcement.replace(said_now.timestamp.to_bytes(8, "big"), said_then.timestamp.to_bytes(8, "big"))


async def test_the_session_of_the_document_is_what_is_said(tmp_path: Path) -> None:
    history = pairs(make_log(AUTHOR, 0, 3))
    async with server(tmp_path) as peer, peer.serve(LOOPBACK) as listener:
        await peer.add(history[:2])
        connection = await dial(listener.address)
        out, incoming = await connection.open_stream(), await connection.accept_stream()
        for number, (speaker, message) in enumerate(DOCUMENT):
            if speaker == "C":
                await out.write(message)
                if isinstance(entry := decode(message), EntryMessage):
                    await until(lambda: peer.heights().get((CLIENT.public_key, 0)))
                    assert list(peer.store.entries(CLIENT.public_key, 0, 1, 1)) == [
                        (entry.entry, entry.operation)
                    ]
                    # Live: nobody has to ask for it.
                    await peer.add(history[2:])
                continue
            answer = await take(incoming, len(message))
            if number == 0:
                answer = with_timestamp_of(answer, message)
            assert written("S", answer, "") == written("S", message, "")
        out.finish()
        assert await take(incoming, 1) == b""
        reason = await connection.wait_closed()
        assert (reason.application, reason.code) == (True, CloseCode.NORMAL)


async def test_a_request_that_comes_before_the_announcement_waits_for_it(tmp_path: Path) -> None:
    messages = [decode(message) for speaker, message in DOCUMENT if speaker == "C"]
    request = next(message for message in messages if isinstance(message, SyncRequest))
    have = next(message for speaker, message in DOCUMENT if speaker == "S" and message[1] == 10)
    async with (
        ReferencePeer(tmp_path, key_pair=SERVER, schemas=["blob_v1"], durable=False) as peer,
        peer.serve(LOOPBACK) as listener,
    ):
        await peer.add(pairs(make_log(AUTHOR, 0, 2)))
        connection = await dial(listener.address)
        out, incoming = await connection.open_stream(), await connection.accept_stream()
        for speaker, message in DOCUMENT[1:3]:
            assert speaker == "C"
            await out.write(message)
        await until(lambda: peer.driver.metrics.messages_in == 2)
        assert request.schema_ids == (SCHEMA,) and not peer.driver.metrics.ignored
        peer.driver.announce([SCHEMA])
        heard = b""
        while not heard.endswith(have):
            heard += await take(incoming, 1)
        await connection.close()


def test_the_document_shows_a_whole_session() -> None:
    kinds = [(speaker, decode(message)) for speaker, message in DOCUMENT]
    assert [type(message) for _, message in kinds].count(SyncDone) == 3
    assert {speaker for speaker, message in kinds if isinstance(message, EntryMessage)} == {"C", "S"}
