"""A connection's peer id is the key that the remote proved, and nothing else is believed."""

from __future__ import annotations

from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate

from culm_connectors.transport import (
    Address,
    CloseCode,
    CloseOrigin,
    ConnectError,
    Connection,
    Identity,
    IdentityError,
    Refusal,
)
from culm_connectors.transport.identity import certify, peer_id_of
from culm_connectors.transport.quic import Listener, allow_everybody, connect, dial, serve
from culm_connectors.transport.quic.configuration import configuration
from culm_connectors.transport.quic.library import CreditedQuicConnection
from tests.support.connectors.quic import ALPN, LOOPBACK, greet_and_echo, identity, quick_settings
from tests.support.process.waiting import until, while_working

SERVER, ALLOWED, STRANGER = identity(1), identity(2), identity(3)
SETTINGS = quick_settings()
DECRYPT_ERROR = 0x133
BAD_CERTIFICATE = 0x12A


def only_allowed(peer_id: bytes, address: Address) -> Refusal | None:
    return None if peer_id == ALLOWED.peer_id else Refusal("not on the allow-list")


async def refused(
    address: Address, client: Identity, expected: bytes | None = SERVER.peer_id
) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        await connect(address, client, expected, SETTINGS, alpn=ALPN)
    return caught.value


def never_called(connection: Connection) -> Any:
    raise AssertionError("a refused connection reached the handler")


async def assert_forgotten(listener: Listener) -> None:
    assert listener.connections == []
    await until(lambda: not listener._by_connection_id)
    assert not listener._half_open
    assert not listener._per_address


def test_the_same_key_gives_the_same_certificate_bytes() -> None:
    again = Identity.from_private_key(bytes([2]) * 32)
    assert again.certificate.public_bytes(Encoding.DER) == ALLOWED.certificate.public_bytes(Encoding.DER)
    assert peer_id_of([again.certificate]) == ALLOWED.peer_id


def test_an_identity_never_shows_its_private_key() -> None:
    assert ALLOWED.private_key.private_bytes_raw().hex() not in repr(ALLOWED)
    assert "private" not in repr(ALLOWED)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_private_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(IdentityError):
        Identity.from_private_key(bytes(size))


def test_exactly_one_certificate_is_needed() -> None:
    for certificates in ([], [ALLOWED.certificate, ALLOWED.certificate]):
        with pytest.raises(IdentityError):
            peer_id_of(certificates)


async def test_the_right_key_is_accepted_and_both_sides_know_each_other() -> None:
    seen: list[bytes] = []

    async def handler(connection: Connection) -> None:
        seen.append(connection.peer_id)
        await greet_and_echo(connection)

    async with serve(LOOPBACK, SERVER, SETTINGS, handler, alpn=ALPN, authorise=only_allowed) as listener:
        connection = await connect(listener.address, ALLOWED, SERVER.peer_id, SETTINGS, alpn=ALPN)
        assert connection.peer_id == SERVER.peer_id
        assert connection.dialled
        stream = await connection.open_stream()
        await stream.write(b"hello")
        answers = await connection.accept_stream()
        assert await answers.read(1) == b"!"
        assert await answers.read() == b"hello"
        await connection.close()
    assert seen == [ALLOWED.peer_id]


async def test_a_stranger_is_told_no_before_the_handler_hears_of_it() -> None:
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN, authorise=only_allowed) as listener:
        error = await refused(listener.address, STRANGER)
        assert error.reason is not None
        assert (error.reason.code, error.reason.application) == (CloseCode.IDENTITY, True)
        assert error.reason.origin == CloseOrigin.REMOTE
        assert "not on the allow-list" in str(error)
        await assert_forgotten(listener)


async def test_a_client_without_a_certificate_is_refused() -> None:
    bare = Identity(b"", cast(Ed25519PrivateKey, None), cast(Certificate, None))
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN) as listener:
        error = await refused(listener.address, bare)
        assert error.reason is not None and error.reason.code == CloseCode.IDENTITY
        await assert_forgotten(listener)


async def test_a_client_with_another_kind_of_key_is_refused() -> None:
    key = cast(Ed25519PrivateKey, rsa.generate_private_key(65_537, 2_048))
    other_kind = Identity(b"", key, ALLOWED.certificate)
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN) as listener:
        error = await refused(listener.address, other_kind)
        assert error.reason is not None and error.reason.code == CloseCode.IDENTITY
        await assert_forgotten(listener)


async def test_a_stolen_certificate_without_its_private_key_proves_nothing() -> None:
    thief = Identity(ALLOWED.peer_id, STRANGER.private_key, ALLOWED.certificate)
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN, authorise=only_allowed) as listener:
        error = await refused(listener.address, thief)
        assert error.reason is not None
        assert (error.reason.code, error.reason.application) == (DECRYPT_ERROR, False)
        await assert_forgotten(listener)


async def test_a_certificate_that_names_an_allowed_key_but_is_made_by_another_proves_nothing() -> None:
    forged = certify(ALLOWED.private_key.public_key(), STRANGER.private_key)
    forger = Identity(ALLOWED.peer_id, STRANGER.private_key, forged)
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN, authorise=only_allowed) as listener:
        error = await refused(listener.address, forger)
        assert error.reason is not None and error.reason.code == DECRYPT_ERROR
        await assert_forgotten(listener)


class MalformedCertificate:
    def public_bytes(self, encoding: Encoding) -> bytes:
        return b"\x30\x82\x01\x00 this is no certificate"


async def test_a_malformed_certificate_ends_its_own_connection_alone() -> None:
    malformed = Identity(b"", STRANGER.private_key, cast(Certificate, MalformedCertificate()))
    async with serve(LOOPBACK, SERVER, SETTINGS, greet_and_echo, alpn=ALPN) as listener:
        bystander = await connect(listener.address, ALLOWED, SERVER.peer_id, SETTINGS, alpn=ALPN)
        error = await refused(listener.address, malformed)
        assert error.reason is not None and error.reason.code == BAD_CERTIFICATE
        assert bystander.close_reason is None
        await bystander.close()


async def test_a_chain_of_certificates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_chain(*arguments: Any, **options: Any) -> Any:
        made = configuration(*arguments, **options)
        made.certificate_chain = [STRANGER.certificate]
        return made

    monkeypatch.setattr(dial, "configuration", with_chain)
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN) as listener:
        error = await refused(listener.address, ALLOWED)
        assert error.reason is not None and error.reason.code == CloseCode.IDENTITY


async def test_a_server_with_another_key_than_the_dialled_one_is_left() -> None:
    async with serve(LOOPBACK, STRANGER, SETTINGS, never_called, alpn=ALPN) as listener:
        error = await refused(listener.address, ALLOWED, expected=SERVER.peer_id)
        assert error.reason is not None
        assert (error.reason.code, error.reason.origin) == (CloseCode.WRONG_PEER, CloseOrigin.LOCAL)
        await assert_forgotten(listener)


async def test_an_impostor_server_with_a_stolen_certificate_proves_nothing() -> None:
    impostor = Identity(SERVER.peer_id, STRANGER.private_key, SERVER.certificate)
    async with serve(LOOPBACK, impostor, SETTINGS, never_called, alpn=ALPN) as listener:
        error = await refused(listener.address, ALLOWED)
        assert error.reason is not None
        assert (error.reason.code, error.reason.application) == (DECRYPT_ERROR, False)


async def test_any_proven_key_will_do_where_none_is_expected() -> None:
    async with serve(LOOPBACK, STRANGER, SETTINGS, greet_and_echo, alpn=ALPN) as listener:
        connection = await connect(listener.address, ALLOWED, None, SETTINGS, alpn=ALPN)
        assert connection.peer_id == STRANGER.peer_id
        await connection.close()


async def test_an_unknown_application_protocol_is_refused() -> None:
    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN) as listener:
        with pytest.raises(ConnectError) as caught:
            await connect(listener.address, ALLOWED, SERVER.peer_id, SETTINGS, alpn="culm/other/1")
        assert caught.value.reason is not None
        assert (caught.value.reason.code, caught.value.reason.application) == (0x178, False)


async def test_a_failing_authorisation_refuses() -> None:
    def broken(peer_id: bytes, address: Address) -> Refusal | None:
        raise RuntimeError("the allow-list could not be read")

    async with serve(LOOPBACK, SERVER, SETTINGS, never_called, alpn=ALPN, authorise=broken) as listener:
        error = await refused(listener.address, ALLOWED)
        assert error.reason is not None and error.reason.code == CloseCode.INTERNAL
        assert "allow-list" not in str(error)


async def test_a_revoked_key_loses_its_living_connections() -> None:
    rules = [allow_everybody]
    async with serve(
        LOOPBACK, SERVER, SETTINGS, greet_and_echo, alpn=ALPN, authorise=lambda *who: rules[-1](*who)
    ) as listener:
        kept = await connect(listener.address, ALLOWED, SERVER.peer_id, SETTINGS, alpn=ALPN)
        revoked = await connect(listener.address, STRANGER, SERVER.peer_id, SETTINGS, alpn=ALPN)
        rules.append(only_allowed)
        assert listener.judge_again() == 1
        async with while_working():
            reason = await revoked.wait_closed()
        assert (reason.code, reason.origin) == (CloseCode.REVOKED, CloseOrigin.REMOTE)
        assert kept.close_reason is None
        assert [connection.peer_id for connection in listener.connections] == [ALLOWED.peer_id]
        error = await refused(listener.address, STRANGER)
        assert error.reason is not None and error.reason.code == CloseCode.IDENTITY
        await kept.close()


async def test_a_server_offers_no_session_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[object] = []
    made: list[Any] = []

    class Watched(CreditedQuicConnection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._session_ticket_handler = offered.append
            made.append(self)

    monkeypatch.setattr(dial, "CreditedQuicConnection", Watched)
    async with serve(LOOPBACK, SERVER, SETTINGS, greet_and_echo, alpn=ALPN) as listener:
        connection = await connect(listener.address, ALLOWED, SERVER.peer_id, SETTINGS, alpn=ALPN)
        await connection.close()
    assert made
    assert offered == []
