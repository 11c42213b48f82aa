"""The operating errors of the libp2p transport."""

from __future__ import annotations

from culm_connectors.transport.errors import IdentityError, TransportError


class Libp2pError(TransportError, code="transport.libp2p"):
    """Any operating error of the libp2p transport that plain QUIC does not have."""


class MultiaddrError(Libp2pError, code="transport.libp2p.address"):
    """A text that is not an address of a libp2p peer over QUIC."""


class WireError(Libp2pError, code="transport.libp2p.wire"):
    """Malformed base58, protobuf or DER."""


class NegotiationError(Libp2pError, code="transport.libp2p.negotiation"):
    """The remote breaks multistream-select, or does not support the requested protocol."""


class CertificateError(IdentityError, code="transport.libp2p.certificate"):
    """A certificate that proves no libp2p host key, or one that no p2panda peer has."""
