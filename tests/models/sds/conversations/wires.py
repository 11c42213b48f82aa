"""The bytes of a message from its fields, in the plainest way: no codec, no filter and no cache of Culm.

Of the hashes only FarmHash is Culm's own, which has vectors of its own; the rest is a dozen lines of protobuf
and a filter as a set of numbers (reference/sds.md, 1.1 and 2).
"""

from hashlib import blake2b, sha256
from typing import Any, Final

import mmh3

from culm_models.sds.bloom.farmhash import fingerprint64

# Filters of 32 bytes, small enough to be read: 20 ids at an error rate of 0.01 make ceil(9.59) = 10 bits an
# id, 200 bits, round(ln 2 * 10) = 7 hashes and 1 + 200 // 64 = 4 words.
CAPACITY: Final = 20
ERROR_RATE: Final = 0.01
_BITS: Final = 200
_HASHES: Final = 7
_BYTES: Final = 32
CHANNEL: Final = "room"

Fields = dict[str, Any]


def wire_of(message: Fields, profile: str) -> bytes:
    """`message`: sender, id, lamport, history and repair, filter (ids), content.

    Entries of history and repair are [id, sender] or [id, sender, hint in hexadecimal].
    """
    return _nim(message) if profile == "nim" else _spec(message)


def sync_id(seed: bytes, participant_id: str, number: int) -> str:
    """The id that the `number`th sync of a channel gets (from 0)."""
    digest = blake2b(digest_size=8)
    for part in (seed, b"sync.id", participant_id.encode(), str(number).encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return f"sync-{digest.hexdigest()}"


def t_req_ms(profile: str, participant_id: str, message_id: str, t_min_ms: int, t_max_ms: int) -> int:
    """SDS-R: how long after it was missed a message is asked for."""
    return t_min_ms + abs(_repair_hash(profile, participant_id + message_id)) % (t_max_ms - t_min_ms)


def t_resp_ms(profile: str, participant_id: str, writer_id: str, message_id: str, t_max_ms: int) -> int:
    """SDS-R: how long after the request it is answered."""
    distance = abs(_repair_hash(profile, participant_id) ^ _repair_hash(profile, writer_id))
    return distance * abs(_repair_hash(profile, message_id)) % t_max_ms


def _repair_hash(profile: str, text: str) -> int:
    if profile != "nim":
        return int.from_bytes(sha256(text.encode()).digest()[:8], "big")
    return int.from_bytes(fingerprint64(text.encode()).to_bytes(8, "big"), "big", signed=True)


def _spec(message: Fields) -> bytes:
    data = _text(1, message["sender"]) + _text(2, message["id"]) + _text(3, CHANNEL)
    if message["lamport"] is not None:
        data += _number(10, message["lamport"])
        data += b"".join(_octets(11, _entry(entry)) for entry in message["history"])
        data += _octets(12, _filter(message["filter"], "js"))
    data += b"".join(_octets(13, _entry(entry)) for entry in message["repair"])
    return data + (_octets(20, message["content"].encode()) if message["content"] else b"")


def _nim(message: Fields) -> bytes:
    bits = _filter(message["filter"], "nim")
    container = _octets(1, bits) + _number(2, CAPACITY) + _number(3, round(ERROR_RATE * 1_000_000))
    container += _number(4, _HASHES) + _number(5, _BITS)
    data = _text(1, message["id"]) + _number(2, message["lamport"])
    data += b"".join(_octets(3, _entry(entry)) for entry in message["history"])
    data += _text(4, CHANNEL) + _octets(5, message["content"].encode()) + _octets(6, container)
    data += _text(7, message["sender"])
    return data + b"".join(_octets(13, _entry(entry)) for entry in message["repair"])


def _entry(entry: list[str]) -> bytes:
    message_id, sender_id, *hint = entry
    return (
        _text(1, message_id) + b"".join(_octets(2, bytes.fromhex(one)) for one in hint) + _text(3, sender_id)
    )


def _filter(ids: list[str], layout: str) -> bytes:
    bits = bytearray(_BYTES)
    for message_id in ids:
        first, second = (abs(_bloom_hash(text, layout)) % _BITS for text in (message_id, message_id + " b"))
        for step in range(_HASHES):
            bit = (first + step * second) % _BITS
            # js writes each word of 64 bits with its highest byte first, nim with its lowest.
            place = bit // 8 if layout == "nim" else bit // 64 * 8 + 7 - bit % 64 // 8
            bits[place] |= 1 << bit % 8
    return bytes(bits)


def _bloom_hash(text: str, layout: str) -> int:
    return _repair_hash("nim", text) if layout == "nim" else mmh3.hash(text, signed=True)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, text: str) -> bytes:
    return _octets(field, text.encode())


def _octets(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    low = b""
    while value >= 0x80:
        low += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return low + bytes((value,))
