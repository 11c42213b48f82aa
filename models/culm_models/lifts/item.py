"""An item of the sync range as the bytes that a lift hashes."""

import struct

from culm_models.varu64 import MAX_VALUE

Item = tuple[bytes, int, int]
"""Public key (32 bytes), log id, sequence number."""

ITEM_SIZE = 48
_ITEM = struct.Struct(">32sQQ")
_KEY_SIZE = 32


def pack(item: Item) -> bytes:
    """The 48 bytes of an item: public key, log id and sequence number, both big-endian."""
    public_key, log_id, seq_num = item
    assert len(public_key) == _KEY_SIZE, "a public key has 32 bytes"
    return _ITEM.pack(public_key, log_id, seq_num)


def as_cbor(item: Item) -> bytes:
    """The CBOR array [public key in hexadecimal, log id, sequence number], as messages have it."""
    public_key, log_id, seq_num = item
    assert len(public_key) == _KEY_SIZE, "a public key has 32 bytes"
    return b"\x83\x78\x40" + public_key.hex().encode() + _unsigned(log_id) + _unsigned(seq_num)


def _unsigned(number: int) -> bytes:
    # By hand: through the strict door of the `cbor` package an item would cost five times the hash of it.
    if number < 24:
        return number.to_bytes(1, "big")
    for head, size in ((0x18, 1), (0x19, 2), (0x1A, 4)):
        if number < 1 << 8 * size:
            return bytes((head,)) + number.to_bytes(size, "big")
    assert number <= MAX_VALUE, "a number of 64 bits"
    return b"\x1b" + number.to_bytes(8, "big")
