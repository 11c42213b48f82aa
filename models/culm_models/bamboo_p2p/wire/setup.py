"""The setup bytes, the first of either direction of the control channel (R3)."""

from culm_models import varu64
from culm_models.bamboo_p2p.wire.messages import Setup
from culm_models.bamboo_p2p.wire.numbers import Incomplete, Reader

_SENDS_GREEDILY = 0x02
_ACCEPTS_GREEDY = 0x01


def encode_setup(setup: Setup) -> bytes:
    """3 to 19 bytes."""
    flags = (_SENDS_GREEDILY if setup.sends_greedily else 0) | (
        _ACCEPTS_GREEDY if setup.accepts_greedy else 0
    )
    return bytes((flags,)) + varu64.encode(setup.send_window) + varu64.encode(setup.receive_window)


def decode_setup(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[Setup, int] | None:
    """The setup at `offset` and where it ends; None where more bytes are needed. Any bytes are a setup."""
    reader = Reader(data, offset)
    try:
        flags = reader.byte()
        setup = Setup(
            bool(flags & _SENDS_GREEDILY), bool(flags & _ACCEPTS_GREEDY), reader.number(), reader.number()
        )
    except Incomplete:
        return None
    return setup, reader.offset
