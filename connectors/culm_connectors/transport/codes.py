"""The application close codes that Culm's transport and drivers put on the wire.

The table is part of the contract with every other peer: a number never changes its meaning. Codes of QUIC
itself live in another space (RFC 9000 section 20), which `CloseReason.application` tells apart.
"""

from __future__ import annotations

from enum import IntEnum, unique

_OTHER = "other"


@unique
class CloseCode(IntEnum):
    """The reason for which one side ended a connection."""

    NORMAL = 0x100
    """The exchange is complete; all data written before has been acknowledged."""
    SHUTTING_DOWN = 0x101
    """The process ends; come back later or go elsewhere."""
    INTERNAL = 0x102
    """The closing side failed for a reason of its own."""
    NOT_READY = 0x103
    """This protocol is not served yet, others may be: come back later."""
    STORE_UNUSABLE = 0x104
    """The local store of this protocol is full or damaged: come back later, or go elsewhere."""

    PROTOCOL = 0x110
    """The remote broke a rule of the protocol on the streams."""
    TOO_LARGE = 0x111
    """A message was larger than the receiver accepts."""
    TOO_MANY_STREAMS = 0x112
    """More streams were open at once than granted."""
    OVERLOADED = 0x113
    """The remote exceeds its budget, or the process has no capacity left."""

    IDENTITY = 0x130
    """No usable certificate, or a key that the allow-list does not name."""
    WRONG_PEER = 0x131
    """The server proved another key than the one that was dialled."""
    REVOKED = 0x132
    """The key was allowed when the connection began and is no longer."""
    # 0x133 stays free: in QUIC's own space it is "decrypt_error", the result of a stolen certificate.
    SUPERSEDED = 0x134
    """The key has more connections than it may hold; this is the oldest."""
    HANDSHAKE_TIMEOUT = 0x135
    """The handshake, or the server's first bytes, did not arrive in time."""


def describe(code: int, *, application: bool) -> str:
    """Name a close code for people: `"wrong_peer (0x131)"`, `"QUIC error 0x178"`."""
    if not application:
        return f"QUIC error 0x{code:x}"
    name = name_of(code)
    return f"code 0x{code:x}" if name == _OTHER else f"{name} (0x{code:x})"


def name_of(code: int) -> str:
    """Return the name of a `CloseCode` as in metrics, such as `"wrong_peer"`; `"other"` for other codes."""
    try:
        return CloseCode(code).name.lower()
    except ValueError:
        return _OTHER
