"""What a libp2p peer is told when it asks who we are (`/ipfs/id/1.0.0`)."""

from __future__ import annotations

from collections.abc import Sequence

from culm_connectors.transport.interface import Address
from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.errors import MultiaddrError
from culm_connectors.transport.libp2p.host_key import HostKey
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_models.varint import write_varint

AGENT = b"culm"
PROTOCOL_VERSION = b"/p2p/1.0.0"
# Field numbers of the protobuf `Identify`.
_PUBLIC_KEY, _LISTEN, _PROTOCOLS, _OBSERVED, _PROTOCOL_VERSION, _AGENT = range(1, 7)


def encode_identify(
    peer_id: bytes, protocols: Sequence[bytes], observed: Address, listening: Sequence[Address] = ()
) -> bytes:
    """The answer with its length in front. `observed` is where the asking peer sends from."""
    parts = [wire.bytes_field(_PUBLIC_KEY, HostKey.ed25519(peer_id).encode())]
    parts += [wire.bytes_field(_LISTEN, _binary(address)) for address in listening]
    parts += [wire.bytes_field(_PROTOCOLS, protocol) for protocol in protocols]
    parts += [
        wire.bytes_field(_OBSERVED, _binary(observed)),
        wire.bytes_field(_PROTOCOL_VERSION, PROTOCOL_VERSION),
        wire.bytes_field(_AGENT, AGENT),
    ]
    message = b"".join(parts)
    return write_varint(len(message)) + message


def _binary(address: Address) -> bytes:
    try:
        return Multiaddr(address).encode()
    except MultiaddrError:
        return b""
