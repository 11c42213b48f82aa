"""The operating errors of the libp2p transport."""

from __future__ import annotations

from typing import ClassVar

from culm_connectors.transport.errors import IdentityError, TransportError


class Libp2pError(TransportError):
    """Any operating error of the libp2p transport that plain QUIC does not have."""

    code: ClassVar[str] = "transport.libp2p"


class MultiaddrError(Libp2pError):
    """A text that is no address of a libp2p peer over QUIC."""

    code: ClassVar[str] = "transport.libp2p.address"


class WireError(Libp2pError):
    """Bytes that are no base58, protobuf or DER of the kind that is needed."""

    code: ClassVar[str] = "transport.libp2p.wire"


class NegotiationError(Libp2pError):
    """The remote breaks multistream-select, or does not speak the protocol that was asked for."""

    code: ClassVar[str] = "transport.libp2p.negotiation"


class CertificateError(IdentityError):
    """A certificate that proves no libp2p host key, or one that no p2panda peer has."""

    code: ClassVar[str] = "transport.libp2p.certificate"
