"""Identity of a connection's sides: one Ed25519 key each, shown in a self-signed certificate.

The certificate is a wrapper that TLS requires. Only its key is read, and it is rebuilt from the private key
whenever a process starts. The proof is TLS 1.3's CertificateVerify message, a signature by that
key over the handshake (RFC 8446 section 4.4.3), which the QUIC library has checked before `peer_id_of` runs.
"""

from __future__ import annotations

import datetime
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from culm_connectors.transport.errors import IdentityError

PRIVATE_KEY_BYTES = 32
RESET_TOKEN_BYTES = 16
_RESET_PURPOSE = b"culm stateless reset 1"
_NOT_BEFORE = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_NOT_AFTER = datetime.datetime(4096, 1, 1, tzinfo=datetime.UTC)


class Credentials(Protocol):
    """This side's identity, and the check that derives the other side's from its certificates."""

    takes_ecdsa: ClassVar[bool]
    """True if certificates with a P-256 key are accepted in addition to those with an Ed25519 key."""

    @property
    def peer_id(self) -> bytes:
        """This side's Ed25519 public key, 32 bytes."""
        ...

    @property
    def private_key(self) -> Ed25519PrivateKey | EllipticCurvePrivateKey:
        """The key of the certificate."""
        ...

    @property
    def certificate(self) -> x509.Certificate:
        """The certificate that is shown to the other side."""
        ...

    def reset_token(self, connection_id: bytes) -> bytes:
        """The stateless reset token of a connection id (16 bytes)."""
        ...

    def judge(self, certificates: Sequence[x509.Certificate]) -> bytes:
        """Return the peer id (32 bytes) that the remote's certificates prove. Raises `IdentityError`."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """This side's key and the certificate made from it. The same key gives the same certificate bytes."""

    takes_ecdsa: ClassVar[bool] = False

    peer_id: bytes
    private_key: Ed25519PrivateKey = field(repr=False)
    certificate: x509.Certificate = field(repr=False)

    @classmethod
    def from_private_key(cls, private_key: bytes) -> Identity:
        """Build from the 32-byte private key (a `KeyPair.private_key`). Error: `IdentityError`."""
        if len(private_key) != PRIVATE_KEY_BYTES:
            raise IdentityError(f"a private key has {PRIVATE_KEY_BYTES} bytes, not {len(private_key)}")
        key = Ed25519PrivateKey.from_private_bytes(private_key)
        return cls(key.public_key().public_bytes_raw(), key, certify(key.public_key(), key))

    def reset_token(self, connection_id: bytes) -> bytes:
        """The stateless reset token of a connection id that a server of this identity gave out (16 bytes).

        It needs no memory, so a server that was restarted knows it too (RFC 9000 section 10.3.2). Two servers
        of one identity that run at once would hand out each other's tokens.
        """
        return derive_reset_token(self.private_key.private_bytes_raw(), connection_id)

    def judge(self, certificates: Sequence[x509.Certificate]) -> bytes:
        """Return the peer id (32 bytes) that the remote's certificates carry. Raises `IdentityError`."""
        return peer_id_of(certificates)


def derive_reset_token(private_key: bytes, connection_id: bytes) -> bytes:
    """The stateless reset token of a connection id under a private key (16 bytes)."""
    static_key = hmac.digest(private_key, _RESET_PURPOSE, "sha256")
    return hmac.digest(static_key, connection_id, "sha256")[:RESET_TOKEN_BYTES]


def certify(public_key: Ed25519PublicKey, signer: Ed25519PrivateKey) -> x509.Certificate:
    """The certificate of `public_key`, signed by `signer` (the same key, in a certificate that is valid)."""
    nobody = x509.Name([])
    return (
        x509.CertificateBuilder()
        .subject_name(nobody)
        .issuer_name(nobody)
        .serial_number(1)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .public_key(public_key)
        .sign(signer, algorithm=None)
    )


def peer_id_of(certificates: Sequence[x509.Certificate]) -> bytes:
    """Return the peer id (32 bytes) that the remote's certificates carry. Raises `IdentityError`."""
    if len(certificates) != 1:
        shown = "no certificate" if not certificates else f"{len(certificates)} certificates"
        raise IdentityError(f"the remote showed {shown} instead of exactly one")
    try:
        public_key = certificates[0].public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise IdentityError("the remote's certificate holds a key that cannot be read") from None
    if not isinstance(public_key, Ed25519PublicKey):
        raise IdentityError("the remote's certificate holds a key that is not Ed25519")
    return public_key.public_bytes_raw()
