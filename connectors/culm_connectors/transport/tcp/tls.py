"""TLS without a socket: bytes in, bytes out, and an end for each direction.

TLS 1.3 by default, since each direction has an end of its own there (RFC 8446 section 6.1), as TCP's have; of
1.2 that depends on the remote's library.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import ssl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.errors import IdentityError

_READ_BYTES = 64 * 1024
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
logger = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int] | None, ...]


def followed_server_context(tls: TlsFiles) -> FollowedContext:
    """The context of a server, as its files are. Error: `IdentityError` if one cannot be used now."""
    return FollowedContext(lambda: server_context(tls), (tls.certificate, tls.private_key, tls.ca))


def server_context(tls: TlsFiles) -> ssl.SSLContext:
    """The context of a server. Error: `IdentityError` if a file is missing or cannot be used."""
    if tls.certificate is None:
        raise IdentityError(
            "TLS cannot be served without a certificate",
            hint="set certificate and private_key in the tls table of the protocol",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.minimum_version]
    try:
        context.load_cert_chain(tls.certificate, tls.private_key)
        if tls.ca is not None:
            context.load_verify_locations(tls.ca)
            is_optional = tls.require_client_certificate is False
            context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(f"TLS cannot be served: {error}", hint="check the files of [tls]") from error
    return context


def client_context(tls: TlsFiles) -> ssl.SSLContext:
    """The context of a client. Error: `IdentityError` if a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.private_key)
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(f"TLS cannot be spoken: {error}", hint="check the files of [tls]") from error
    context.minimum_version = _VERSIONS[tls.minimum_version]
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
        """Return the bytes that are ready to be sent over the network."""
        return self._outgoing.read()

    def fingerprint(self) -> bytes | None:
        """The SHA-256 of the remote's public key; None where it has shown no certificate."""
        certificate = self._session.getpeercert(binary_form=True)
        if certificate is None:
            return None
        key = x509.load_der_x509_certificate(certificate).public_key()
        return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


class FollowedContext:
    """Context that new sessions begin with, made anew when one of its files has changed.

    Sessions that live keep what they began with. Certificate and key are two files, replaced one after the
    other: what does not fit together leaves the context as it was until it does.

    Error: `IdentityError` where the files cannot be used at the start; later it is a line in the log, one for
    each change.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[Path | None]) -> None:
        self._make = make
        self._files = tuple(file for file in files if file is not None)
        # Looked at before it is read: what changes meanwhile is another change.
        self._seen = self._signature()
        self._context = make()

    def current(self) -> ssl.SSLContext:
        """The context for a session that begins now."""
        found = self._signature()
        if found != self._seen:
            self._seen = found
            try:
                self._context = self._make()
            except IdentityError as error:
                logger.error("TLS goes on with the former files: %s", error)
            else:
                logger.info("the files of TLS were read again: %s", ", ".join(map(str, self._files)))
        return self._context

    def _signature(self) -> _Signature:
        return tuple(_look(file) for file in self._files)


def _look(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
