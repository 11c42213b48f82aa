"""Principals: the identity behind a connection, by the strongest credential that it has shown.

The credential is a proven Ed25519 key, the key of a TLS certificate (by its fingerprint), a bearer token (by
its hash; the token itself is not kept), or only the address. Access rules name principals as `name` does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Self

FINGERPRINT_SIZE = 32


@dataclass(frozen=True, slots=True)
class Principal:
    """An identity in `name`, and in `address` the host and port from which it connects."""

    name: str
    address: tuple[str, int]
    key: bytes = b""
    """The proven Ed25519 key (32 bytes); empty if another credential was shown."""

    @classmethod
    def of_key(cls, key: bytes, address: tuple[str, int]) -> Self:
        """Return the principal of a proven Ed25519 key, which rules name in hex."""
        return cls(key.hex(), address, key)

    @classmethod
    def of_tls_key(cls, fingerprint: bytes, address: tuple[str, int]) -> Self:
        """Return the principal of a client certificate's key; rules name it `tls:` and the key's SHA-256."""
        return cls(f"tls:{fingerprint.hex()}", address)

    @classmethod
    def of_token(cls, token: str, address: tuple[str, int]) -> Self:
        """Return the principal of a bearer token, which rules name `token:` and its SHA-256."""
        return cls(f"token:{hashlib.sha256(token.encode()).hexdigest()}", address)

    @classmethod
    def of_address(cls, address: tuple[str, int]) -> Self:
        """Return the principal of a peer without a credential, which rules name `address:` and the host."""
        return cls(f"address:{address[0]}", address)


def neighbourhood(host: str) -> str:
    """Return the unit that shares one budget: an IPv4 address, or an IPv6 network of 64 bits.

    One client usually has such an IPv6 network to itself. A host that is no IP address is returned as it is.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if (plain := address.ipv4_mapped) is not None:
        return str(plain)
    return str(ip_network((int(address) >> 64 << 64, 64)))
