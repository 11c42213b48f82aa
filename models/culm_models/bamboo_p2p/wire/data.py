"""Encoding of data messages ("Encodings: data channel"; R44, R51).

    0     switch      id                 8         raw payload         length, bytes
    2, 3  notify      one piece, or n    9         compressed payload  length, compressed length, bytes
    4..6  skip        the payload        16        apology
    7     skip bytes  length             32        cancelled           id
                                         128, 129  metadata            [backlink] size hash signature

For a payload, only the head is a message: its bytes may be many and are streamed by the reader. The request's
sequence decides whether metadata contains a backlink (R52), so the decoder calls back for metadata.
"""

from collections.abc import Callable
from typing import Final

from culm_models import varu64
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.errors import Malformed
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.bamboo_p2p.wire.control import read_hash
from culm_models.bamboo_p2p.wire.messages import (
    Apology,
    Cancelled,
    CompressedPayload,
    DataMessage,
    Metadata,
    Notify,
    RawPayload,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from culm_models.bamboo_p2p.wire.numbers import Incomplete, Reader
from culm_models.keys import SIGNATURE_SIZE

_SWITCH: Final = 0
_NOTIFY_ONE: Final = 2
_NOTIFY: Final = 3
_SKIP_BYTES: Final = 7
_RAW: Final = 8
_COMPRESSED: Final = 9
_APOLOGY: Final = 16
_CANCELLED: Final = 32
_METADATA: Final = 128


def encode_data(message: DataMessage) -> bytes:
    """Encode a data message; for a payload, only its head."""
    match message:
        case Switch(id=id_):
            return bytes((_SWITCH,)) + varu64.encode(id_)
        case Notify(pieces=1):
            return bytes((_NOTIFY_ONE,))
        case Notify(pieces=pieces):
            return bytes((_NOTIFY,)) + varu64.encode(pieces)
        case Skip(reason=reason):
            return bytes((reason,))
        case SkipBytes(length=length):
            return bytes((_SKIP_BYTES,)) + varu64.encode(length)
        case RawPayload(length=length):
            return bytes((_RAW,)) + varu64.encode(length)
        case CompressedPayload(length=length, compressed_length=compressed_length):
            return bytes((_COMPRESSED,)) + varu64.encode(length) + varu64.encode(compressed_length)
        case Apology():
            return bytes((_APOLOGY,))
        case Cancelled(id=id_):
            return bytes((_CANCELLED,)) + varu64.encode(id_)
        case Metadata():
            return b"".join(
                (
                    bytes((_METADATA + message.end_of_log,)),
                    message.backlink or b"",
                    varu64.encode(message.payload_size),
                    message.payload_hash,
                    message.signature,
                )
            )


def encode_metadata(log_entry: HeldEntry, *, with_backlink: bool) -> bytes:
    """Encode the metadata of an entry. Size, payload hash and signature are the end of its signed bytes."""
    entry = log_entry.entry
    end = varu64.encoded_size(entry.payload_size) + len(entry.payload_hash) + SIGNATURE_SIZE
    first = b"\x81" if entry.end_of_log else b"\x80"
    backlink = entry.backlink if with_backlink else None
    return first + (backlink or b"") + log_entry.entry_bytes[-end:]


def decode_data(
    data: bytes | bytearray | memoryview,
    offset: int,
    flavour: HashFlavour,
    expects_backlink: Callable[[], bool],
    *,
    strict: bool = False,
) -> tuple[DataMessage, int] | None:
    """Decode the message at `offset`. Returns it with the offset of its end, or None if bytes are missing.

    For a payload, the end is that of its head. `expects_backlink` is called for metadata and returns whether
    it contains a backlink; it may raise. Raises `Malformed`.
    """
    reader = Reader(data, offset, strict=strict)
    try:
        return _decode(reader, flavour, expects_backlink), reader.offset
    except Incomplete:
        return None


def _decode(reader: Reader, flavour: HashFlavour, expects_backlink: Callable[[], bool]) -> DataMessage:
    first = reader.byte()
    match first:
        case 0x80 | 0x81:
            backlink = read_hash(reader, flavour) if expects_backlink() else None
            payload_size = reader.number(canonical=True)
            payload_hash = read_hash(reader, flavour)
            return Metadata(
                first == _METADATA + 1, backlink, payload_size, payload_hash, reader.take(SIGNATURE_SIZE)
            )
        case 0:
            return Switch(reader.number())
        case 2:
            return Notify(1)
        case 3:
            return Notify(reader.number())
        case 4 | 5 | 6:
            return Skip(SkipReason(first))
        case 7:
            return SkipBytes(reader.number())
        case 8:
            return RawPayload(reader.number())
        case 9:
            return CompressedPayload(reader.number(), reader.number())
        case 16:
            return Apology()
        case 32:
            return Cancelled(reader.number())
    raise Malformed(f"no data message begins with the byte {first}")
