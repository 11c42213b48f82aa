"""TLS without a socket: bytes in, bytes out, and an end for each direction.

TLS 1.3 by default, since each direction has an end of its own there (RFC 8446 section 6.1), as TCP's have; of
1.2 that depends on the remote's library.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from collections.abc import Iterator

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from culm_connectors.transport.errors import IdentityError
from culm_connectors.transport.tcp.rotation import FollowedContext
from culm_connectors.transport.tcp.settings import TlsClientSettings, TlsServerSettings, TlsVersion

_READ_BYTES = 64 * 1024
_VERSIONS: dict[TlsVersion, ssl.TLSVersion] = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def followed_server_context(settings: TlsServerSettings) -> FollowedContext:
    """The context of a server, as its files are. Error: `IdentityError` where one cannot be used now."""
    files = (settings.certificate, settings.private_key, settings.client_ca)
    return FollowedContext(lambda: server_context(settings), files)


def server_context(settings: TlsServerSettings) -> ssl.SSLContext:
    """The context of a server. Error: `IdentityError` where a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.minimum_version]
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
        if settings.client_ca is not None:
            context.load_verify_locations(settings.client_ca)
            required = settings.require_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(f"TLS cannot be served: {error}", hint="check the files of [tls]") from error
    return context


def client_context(settings: TlsClientSettings) -> ssl.SSLContext:
    """The context of a client. Error: `IdentityError` where a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=settings.ca)
        if settings.certificate is not None:
            context.load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(f"TLS cannot be spoken: {error}", hint="check the files of [tls]") from error
    context.minimum_version = _VERSIONS[settings.minimum_version]
    return context


class TlsSession:
    """One side of one session. Errors of the remote are `ssl.SSLError`."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self.is_established = False
        self.remote_finished = False

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Take bytes of the network; what the remote has said comes in pieces."""
        self._incoming.write(data)
        if not self.is_established:
            self.handshake()
        while self.is_established and not self.remote_finished:
            try:
                said = self._session.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                said = b""
            if not said:
                self.remote_finished = True
                return
            yield said

    def handshake(self) -> None:
        """Go on with the handshake as far as it goes; a client begins it so."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_established = True

    def send(self, data: memoryview) -> None:
        """Have bytes encrypted into `outgoing`."""
        while data:
            data = data[self._session.write(data) :]

    def finish(self) -> None:
        """Say that no more comes."""
        # Where the remote has not finished yet, it may go on.
        with contextlib.suppress(ssl.SSLWantReadError):
            self._session.unwrap()

    def outgoing(self) -> bytes:
        """What is to be sent over the network now."""
        return self._outgoing.read()

    def fingerprint(self) -> bytes | None:
        """The SHA-256 of the remote's public key; None where it has shown no certificate."""
        certificate = self._session.getpeercert(binary_form=True)
        if certificate is None:
            return None
        key = x509.load_der_x509_certificate(certificate).public_key()
        return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
