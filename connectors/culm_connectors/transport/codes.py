"""The application close codes that Culm's transport and drivers put on the wire.

The table is part of the contract with every other peer: a number never changes its meaning. Codes of QUIC
itself live in another space (RFC 9000 section 20), which `CloseReason.application` tells apart.
"""

from __future__ import annotations

from enum import IntEnum, unique

_OTHER = "other"


@unique
class CloseCode(IntEnum):
    """Why one side of a connection ended it."""

    NORMAL = 0x100
    """All was said; what was written before has been acknowledged."""
    SHUTTING_DOWN = 0x101
    """The process ends; come back later or go elsewhere."""
    INTERNAL = 0x102
    """The closing side failed for a reason of its own."""
    NOT_READY = 0x103
    """This protocol is not served yet, others may be: come back later."""
    STORE_UNUSABLE = 0x104
    """The local store of this protocol is full or damaged: come back later, or go elsewhere."""

    PROTOCOL = 0x110
    """The remote broke a rule of the protocol spoken on the streams."""
    TOO_LARGE = 0x111
    """A message was larger than the receiver takes."""
    TOO_MANY_STREAMS = 0x112
    """More streams were open at once than granted."""
    OVERLOADED = 0x113
    """The remote asks for more than its share, or the process has none left to give."""

    IDENTITY = 0x130
    """No usable certificate, or a key that the allow-list does not name."""
    WRONG_PEER = 0x131
    """The server proved another key than the one that was dialled."""
    REVOKED = 0x132
    """The key was allowed when the connection began and is no longer."""
    # 0x133 stays free: in QUIC's own space it is "decrypt_error", what a stolen certificate ends in.
    SUPERSEDED = 0x134
    """The same key has newer connections, more than it may hold."""
    HANDSHAKE_TIMEOUT = 0x135
    """The handshake, or the server's first bytes, did not come in time."""


def describe(code: int, *, application: bool) -> str:
    """Name a close code for people: `"wrong_peer (0x131)"`, `"QUIC error 0x178"`."""
    if not application:
        return f"QUIC error 0x{code:x}"
    name = name_of(code)
    return f"code 0x{code:x}" if name == _OTHER else f"{name} (0x{code:x})"


def name_of(code: int) -> str:
    """The name of a close code of ours, as metrics have it: `"wrong_peer"`; `"other"` for any other."""
    try:
        return CloseCode(code).name.lower()
    except ValueError:
        return _OTHER
