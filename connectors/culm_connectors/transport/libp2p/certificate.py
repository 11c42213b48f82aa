"""The certificate of libp2p's TLS handshake: a key for the connection, vouched for by the host's key.

The certificate key signs the handshake (TLS 1.3's CertificateVerify, which the QUIC library checks); an
extension of the certificate holds the host's public key and its signature over the certificate key.
"""

from __future__ import annotations

import datetime
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from culm_connectors.transport.identity import derive_reset_token
from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.errors import CertificateError, WireError
from culm_connectors.transport.libp2p.host_key import HostKey, KeyKind

EXTENSION = x509.ObjectIdentifier("1.3.6.1.4.1.53594.1.1")
_SIGNED_PREFIX = b"libp2p-tls-handshake:"
_RESET_PURPOSE = b"culm libp2p"
_MIN_DIGEST_BYTES = 32
_NOT_BEFORE = datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC)
_NOT_AFTER = datetime.datetime(4096, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Libp2pIdentity:
    """This side's host key, and a certificate with a P-256 key of its own; implements `Credentials`."""

    takes_ecdsa: ClassVar[bool] = True

    peer_id: bytes
    private_key: ec.EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate = field(repr=False)
    _reset_key: bytes = field(repr=False)

    @classmethod
    def from_private_key(cls, private_key: bytes) -> Libp2pIdentity:
        """Build from the host's Ed25519 private key (32 bytes); the certificate key is new each time."""
        host = Ed25519PrivateKey.from_private_bytes(private_key)
        certificate_key = ec.generate_private_key(ec.SECP256R1())
        return cls(
            host.public_key().public_bytes_raw(),
            certificate_key,
            certify(host, certificate_key),
            # A different key than plain QUIC uses: neither server may give out the other's tokens.
            hmac.digest(private_key, _RESET_PURPOSE, "sha256"),
        )

    def reset_token(self, connection_id: bytes) -> bytes:
        """The stateless reset token of a connection id (16 bytes)."""
        return derive_reset_token(self._reset_key, connection_id)

    def judge(self, certificates: Sequence[x509.Certificate]) -> bytes:
        """The Ed25519 host key (32 bytes) that the remote's certificate proves. Error: `CertificateError`."""
        host_key = host_key_of(certificates, datetime.datetime.now(datetime.UTC))
        if host_key.kind is not KeyKind.ED25519:
            raise CertificateError(f"only Ed25519 host keys are taken, not {host_key.kind.name}")
        return host_key.data


def certify(host: Ed25519PrivateKey, certificate_key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Return the self-signed certificate of a key, with the host's signature over the key."""
    host_key = HostKey.ed25519(host.public_key().public_bytes_raw())
    signature = host.sign(_signed(certificate_key.public_key()))
    extension = wire.encode_der_strings(host_key.encode(), signature)
    nobody = x509.Name([])
    return (
        x509.CertificateBuilder()
        .subject_name(nobody)
        .issuer_name(nobody)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .public_key(certificate_key.public_key())
        .add_extension(x509.UnrecognizedExtension(EXTENSION, extension), critical=True)
        .sign(certificate_key, hashes.SHA256())
    )


def host_key_of(certificates: Sequence[x509.Certificate], now: datetime.datetime) -> HostKey:
    """The host key that a certificate proves at this moment. Error: `CertificateError`."""
    if len(certificates) != 1:
        shown = "no certificate" if not certificates else f"{len(certificates)} certificates"
        raise CertificateError(f"the remote showed {shown} instead of exactly one")
    certificate = certificates[0]
    try:
        _check_wrapper(certificate, now)
        values = wire.decode_der_strings(_extension_of(certificate))
        if len(values) != 2:
            raise CertificateError("libp2p's extension holds a key and a signature")
        host_key = HostKey.decode(values[0])
        signed = host_key.has_signed(_signed(certificate.public_key()), values[1])
    except InvalidSignature:
        raise CertificateError("the certificate is not signed by its own key") from None
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise CertificateError(f"the remote's certificate cannot be read: {error}") from None
    except WireError as error:
        raise CertificateError(f"libp2p's extension of the certificate: {error}") from None
    if not signed:
        raise CertificateError("the certificate's key is not vouched for by the host key that it names")
    return host_key


def _check_wrapper(certificate: x509.Certificate, now: datetime.datetime) -> None:
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise CertificateError("the certificate is not valid at this time")
    digest = certificate.signature_hash_algorithm
    if digest is not None and digest.digest_size < _MIN_DIGEST_BYTES:
        raise CertificateError(f"the certificate is signed with {digest.name}, which is too weak")
    certificate.verify_directly_issued_by(certificate)


def _extension_of(certificate: x509.Certificate) -> bytes:
    extension_bytes: bytes | None = None
    for extension in certificate.extensions:
        if extension.oid == EXTENSION and isinstance(extension.value, x509.UnrecognizedExtension):
            extension_bytes = extension.value.value
        elif extension.critical:
            raise CertificateError(f"the critical extension {extension.oid.dotted_string} is not known here")
    if extension_bytes is None:
        raise CertificateError("the certificate does not have libp2p's extension")
    return extension_bytes


def _signed(certificate_key: object) -> bytes:
    """Return the bytes that the host signs: a prefix and the key's `SubjectPublicKeyInfo` in DER."""
    encoded: bytes = certificate_key.public_bytes(  # type: ignore[attr-defined]  # every public key has it
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return _SIGNED_PREFIX + encoded
