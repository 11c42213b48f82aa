"""Who is behind a connection, by the strongest thing that it has shown.

A proven Ed25519 key, the key of a TLS certificate (by its fingerprint), a bearer token (by its hash: the
token itself is kept nowhere), or nothing but the address. Rules of access name principals as `name` does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Self

FINGERPRINT_SIZE = 32


@dataclass(frozen=True, slots=True)
class Principal:
    """`name` says who; `address` is the host and port that it comes from, whoever it is."""

    name: str
    address: tuple[str, int]
    key: bytes = b""
    """The proven Ed25519 key, where that is what was shown."""

    @classmethod
    def of_key(cls, key: bytes, address: tuple[str, int]) -> Self:
        """Of a proven Ed25519 key, which rules name in hex."""
        return cls(key.hex(), address, key)

    @classmethod
    def of_tls_key(cls, fingerprint: bytes, address: tuple[str, int]) -> Self:
        """Of a client certificate's public key, which rules name as `tls:` and the SHA-256 of it."""
        return cls(f"tls:{fingerprint.hex()}", address)

    @classmethod
    def of_token(cls, token: str, address: tuple[str, int]) -> Self:
        """Of a bearer token, which rules name as `token:` and its SHA-256."""
        return cls(f"token:{hashlib.sha256(token.encode()).hexdigest()}", address)

    @classmethod
    def of_address(cls, address: tuple[str, int]) -> Self:
        """Of somebody who has shown nothing: rules name it as `address:` and the host."""
        return cls(f"address:{address[0]}", address)


def neighbourhood(host: str) -> str:
    """Who shares one budget: an address; of IPv6, all of a network of 64 bits, which one client has whole."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if (plain := address.ipv4_mapped) is not None:
        return str(plain)
    return str(ip_network((int(address) >> 64 << 64, 64)))
