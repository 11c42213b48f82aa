"""Addresses of libp2p peers over QUIC: `/ip4/127.0.0.1/udp/2022/quic-v1`, with `/p2p/PEER_ID` or without.

Host parts are `ip4`, `ip6`, `dns`, `dns4` and `dns6`; other transports and relays are not supported.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from culm_connectors.transport.interface import Address
from culm_connectors.transport.libp2p.errors import MultiaddrError, WireError
from culm_connectors.transport.libp2p.host_key import HostKey, format_peer_id, parse_peer_id
from culm_models.varint import write_varint

EXAMPLE = "/ip4/127.0.0.1/udp/2022/quic-v1"
_MAX_HOST_LETTERS = 253
# Protocol numbers of the multiaddr table.
_UDP, _QUIC_V1, _P2P = 273, 461, 421
_IP: Mapping[str, int] = {"ip4": 4, "ip6": 41}
_DNS = frozenset(("dns", "dns4", "dns6"))


@dataclass(frozen=True, slots=True)
class Multiaddr:
    """The address of a peer and the Ed25519 key (32 bytes) that it must have; `None` accepts any key."""

    address: Address
    peer_id: bytes | None = None

    def __str__(self) -> str:
        host, port = self.address
        text = f"/{_host_kind(host)}/{host}/udp/{port}/quic-v1"
        return text if self.peer_id is None else f"{text}/p2p/{format_peer_id(self.peer_id)}"

    def encode(self) -> bytes:
        """The binary form, for addresses with a numeric host. Error: `MultiaddrError`."""
        host, port = self.address
        kind = _host_kind(host)
        if kind not in _IP:
            raise MultiaddrError(f"{host!r} is no numeric host")
        encoded = (
            write_varint(_IP[kind])
            + ipaddress.ip_address(host).packed
            + write_varint(_UDP)
            + port.to_bytes(2)
            + write_varint(_QUIC_V1)
        )
        if self.peer_id is None:
            return encoded
        multihash = HostKey.ed25519(self.peer_id).multihash
        return encoded + write_varint(_P2P) + write_varint(len(multihash)) + multihash


def is_multiaddr(text: str) -> bool:
    """Return whether a text is meant as a multiaddr, well-formed or not."""
    return text.startswith("/")


def parse_multiaddr(text: str) -> Multiaddr:
    """Read the text form. Error: `MultiaddrError`, which says what is wrong."""
    parts = text.split("/")
    if parts[0] or len(parts) not in (6, 8) or parts[3] != "udp" or parts[5] != "quic-v1":
        raise MultiaddrError(
            f"{text[:200]!r} is no address of a libp2p peer over QUIC", hint=f"e.g. {EXAMPLE}"
        )
    host, port = _host(parts[1], parts[2]), parts[4]
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65_535):
        raise MultiaddrError(f"{port[:20]!r} is no port")
    if len(parts) == 6:
        return Multiaddr((host, int(port)))
    if parts[6] != "p2p":
        raise MultiaddrError(f"/{parts[6][:20]} behind quic-v1 is not supported", hint="only /p2p/PEER_ID is")
    try:
        return Multiaddr((host, int(port)), parse_peer_id(parts[7]))
    except WireError as error:
        raise MultiaddrError(str(error)) from None


def _host(kind: str, host: str) -> str:
    if kind in _DNS:
        if not 0 < len(host) <= _MAX_HOST_LETTERS:
            raise MultiaddrError("a host name is missing or too long")
        return host
    if kind not in _IP:
        raise MultiaddrError(f"/{kind[:20]} is not supported", hint="ip4, ip6, dns, dns4 and dns6 are")
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        number = None
    if number is None or kind != f"ip{number.version}":
        raise MultiaddrError(f"{host[:80]!r} is no {kind} address")
    return host


def _host_kind(host: str) -> str:
    try:
        return f"ip{ipaddress.ip_address(host).version}"
    except ValueError:
        return "dns"
