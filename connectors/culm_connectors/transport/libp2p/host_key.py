"""The host keys of libp2p: their encoding, the peer ids made of them, and what they have signed.

A p2panda node's host key is Ed25519, and its peer id holds the key itself ("identity" multihash), so the
order of peer ids is the order of keys. The other kinds are verified as libp2p's TLS specification has it;
whether such a peer is welcome is for the caller to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, unique

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.errors import WireError

ED25519_KEY_BYTES = 32
MAX_ENCODED_BYTES = 2_048
_MAX_INLINE_BYTES = 42
_IDENTITY_MULTIHASH = 0x00
_SHA256_MULTIHASH = 0x12
_RSA_BITS = range(2_048, 8_193)


@unique
class KeyKind(IntEnum):
    """The kinds of host keys, with their numbers on the wire (specification "peer ids")."""

    RSA = 0
    ED25519 = 1
    SECP256K1 = 2
    ECDSA = 3


@dataclass(frozen=True, slots=True)
class HostKey:
    """A host's public key: 32 bytes of Ed25519, a compressed point of secp256k1, else DER."""

    kind: KeyKind
    data: bytes

    @classmethod
    def ed25519(cls, public_key: bytes) -> HostKey:
        """The host key of an Ed25519 public key (32 bytes)."""
        assert len(public_key) == ED25519_KEY_BYTES, "an Ed25519 key"
        return cls(KeyKind.ED25519, public_key)

    @classmethod
    def decode(cls, message: bytes) -> HostKey:
        """Read the protobuf `PublicKey`. Error: `WireError`, for an unknown kind too."""
        if len(message) > MAX_ENCODED_BYTES:
            raise WireError(f"a host key of {len(message)} bytes is too long")
        fields = dict(wire.read_fields(message))
        kind, data = fields.get(1), fields.get(2)
        if not isinstance(kind, int) or not isinstance(data, bytes):
            raise WireError("a host key needs a kind and data")
        try:
            key = cls(KeyKind(kind), data)
        except ValueError:
            raise WireError(f"host keys of kind {kind} are not known here") from None
        if key.kind is KeyKind.ED25519 and len(data) != ED25519_KEY_BYTES:
            raise WireError(f"an Ed25519 host key has {ED25519_KEY_BYTES} bytes, not {len(data)}")
        return key

    def encode(self) -> bytes:
        """The protobuf `PublicKey`."""
        return wire.number_field(1, self.kind) + wire.bytes_field(2, self.data)

    @property
    def multihash(self) -> bytes:
        """The bytes of the peer id: the encoded key if it is short, else its SHA-256."""
        encoded = self.encode()
        if len(encoded) <= _MAX_INLINE_BYTES:
            return bytes((_IDENTITY_MULTIHASH, len(encoded))) + encoded
        return bytes((_SHA256_MULTIHASH, hashlib.sha256().digest_size)) + hashlib.sha256(encoded).digest()

    @property
    def peer_id(self) -> str:
        """The peer id as text, `12D3KooW...` for Ed25519."""
        return wire.encode_base58(self.multihash)

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether this key has signed the message; False for a key that cannot be read."""
        try:
            _VERIFIERS[self.kind](self.data, message, signature)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
            return False
        return True


def format_peer_id(public_key: bytes) -> str:
    """The libp2p peer id of an Ed25519 public key (32 bytes)."""
    return HostKey.ed25519(public_key).peer_id


def parse_peer_id(text: str) -> bytes:
    """The Ed25519 public key (32 bytes) in a peer id. Error: `WireError`, for ids of other keys too."""
    multihash = wire.decode_base58(text)
    if len(multihash) < 2 or multihash[0] != _IDENTITY_MULTIHASH or multihash[1] != len(multihash) - 2:
        raise WireError(f"{text[:80]!r} is not the peer id of an Ed25519 key, `12D3KooW...`")
    key = HostKey.decode(multihash[2:])
    if key.kind is not KeyKind.ED25519 or key.multihash != multihash:
        raise WireError(f"{text[:80]!r} is not the peer id of an Ed25519 key, `12D3KooW...`")
    return key.data


def _verify_ed25519(data: bytes, message: bytes, signature: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(data).verify(signature, message)


def _verify_secp256k1(data: bytes, message: bytes, signature: bytes) -> None:
    if len(data) != 33:
        raise ValueError("a secp256k1 key is a compressed point")
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), data)
    key.verify(signature, message, ec.ECDSA(hashes.SHA256()))


def _verify_ecdsa(data: bytes, message: bytes, signature: bytes) -> None:
    key = load_der_public_key(data)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise TypeError("an ECDSA key was announced")
    key.verify(signature, message, ec.ECDSA(hashes.SHA256()))


def _verify_rsa(data: bytes, message: bytes, signature: bytes) -> None:
    key = load_der_public_key(data)
    if not isinstance(key, rsa.RSAPublicKey):
        raise TypeError("an RSA key was announced")
    if key.key_size not in _RSA_BITS:
        raise ValueError("an RSA key of a size that is not taken")
    key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())


_VERIFIERS: Mapping[KeyKind, Callable[[bytes, bytes, bytes], None]] = {
    KeyKind.RSA: _verify_rsa,
    KeyKind.ED25519: _verify_ed25519,
    KeyKind.SECP256K1: _verify_secp256k1,
    KeyKind.ECDSA: _verify_ecdsa,
}
