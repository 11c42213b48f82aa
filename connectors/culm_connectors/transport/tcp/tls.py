"""TLS without a socket: bytes in, bytes out, and an end for each direction.

TLS 1.3 is the default, since there each direction has its own end (RFC 8446 section 6.1), as in TCP. With
TLS 1.2 that depends on the remote's library.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from culm_connectors.followed_file import FollowedFile, Signature, certificate_expiry_s, signature_of
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.errors import IdentityError

_READ_BYTES = 64 * 1024
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
logger = logging.getLogger(__name__)


def followed_server_context(tls: TlsFiles) -> FollowedContext:
    """Return a server's context that follows its files. Error: `IdentityError` if a file cannot be used."""
    return FollowedContext(lambda: server_context(tls), tls.certificate, (tls.private_key, tls.ca))


def server_context(tls: TlsFiles) -> ssl.SSLContext:
    """Return the context of a server. Error: `IdentityError` if a file is missing or cannot be used."""
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
    """Return the context of a client. Error: `IdentityError` if a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.private_key)
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(f"TLS failed: {error}", hint="check the files of [tls]") from error
    context.minimum_version = _VERSIONS[tls.minimum_version]
    return context


class TlsSession:
    """One side of one TLS session. Errors of the remote raise `ssl.SSLError`."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self.is_established = False
        self.remote_finished = False

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Process bytes from the network; yields the decrypted data in pieces."""
        self._incoming.write(data)
        if not self.is_established:
            self.handshake()
        while self.is_established and not self.remote_finished:
            try:
                decrypted = self._session.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                decrypted = b""
            if not decrypted:
                self.remote_finished = True
                return
            yield decrypted

    def handshake(self) -> None:
        """Advance the handshake as far as possible; a client starts it with this call."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_established = True

    def send(self, data: memoryview) -> None:
        """Encrypt `data` into `outgoing`."""
        while data:
            data = data[self._session.write(data) :]

    def finish(self) -> None:
        """End this side's direction."""
        # If the remote has not finished yet, it may go on.
        with contextlib.suppress(ssl.SSLWantReadError):
            self._session.unwrap()

    def outgoing(self) -> bytes:
        """Return the bytes that are ready to be sent over the network."""
        return self._outgoing.read()

    def fingerprint(self) -> bytes | None:
        """Return the SHA-256 of the remote's public key; None if it has shown no certificate."""
        certificate = self._session.getpeercert(binary_form=True)
        if certificate is None:
            return None
        key = x509.load_der_x509_certificate(certificate).public_key()
        return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


class FollowedContext:
    """The context for new sessions, created again when one of its files has changed.

    Open sessions keep their context. Certificate and key are two files that are replaced one after the other:
    while they do not match, the former context stays in use. Any thread may call its methods.

    Error: `IdentityError` if the files cannot be used at the start; later the error is logged, once per
    change.
    """

    def __init__(
        self, make: Callable[[], ssl.SSLContext], certificate: Path | None, others: Iterable[Path | None]
    ) -> None:
        self._make = make
        self._files = tuple(file for file in (certificate, *others) if file is not None)
        self._lock = threading.Lock()
        # Take the signature before reading the files: a change in between counts as another change.
        self._seen = self._signature()
        self._context = make()
        self._in_force = self._certificate()

    def current(self) -> ssl.SSLContext:
        """Return the context for a session that begins now."""
        with self._lock:
            self._follow()
            return self._context

    def file(self) -> FollowedFile:
        """Return the state of the certificate's file, which stands for all files of the context."""
        with self._lock:
            self._follow()
            return self._in_force

    def _follow(self) -> None:
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._context = self._make()
        except IdentityError as error:
            self._in_force = replace(self._in_force, is_in_force=False)
            logger.error("TLS continues with the previous files: %s", error)
        else:
            self._in_force = self._certificate()
            logger.info("the files of TLS were read again: %s", ", ".join(map(str, self._files)))

    def _certificate(self) -> FollowedFile:
        return FollowedFile(self._files[0], expires_s=certificate_expiry_s(self._files[0]))

    def _signature(self) -> tuple[Signature, ...]:
        return tuple(signature_of(file) for file in self._files)
