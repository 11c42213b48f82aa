"""Bytes to messages and back (specification "replication"): a CBOR array, its first item the type.

`DECODERS` and `ENCODERS` are tables by message type and message class: a message joins the protocol by a
row in each. Schema ids are written as a sorted set and accepted in any order. `Have` is written as the flat
run of the specification or grouped by public key as the aquadoggo node does, and read in either form. The
rows of set reconciliation are in `reconciliation_codec`.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from culm_models import cbor
from culm_models.cbor.errors import TooLargeError
from culm_models.p2panda import have_codec, messages, reconciliation_codec, schema_id
from culm_models.p2panda.message_errors import (
    ItemKindError,
    MalformedMessageError,
    MessageError,
    MessageTooLargeError,
    UnknownTypeError,
)
from culm_models.p2panda.message_items import count, flag, octets, u64
from culm_models.p2panda.messages import Announce, EntryMessage, Have, Message, SyncDone, SyncRequest

Compat = Literal["spec", "aquadoggo"]

# Heads of CBOR (RFC 8949, section 3), for the one message that is worth a short cut.
_ARRAY_OF_4: Final = 0x84
_BYTES_1: Final = 0x58
_BYTES_2: Final = 0x59


def decode(data: bytes) -> Message:
    """The message that `data` is. Raises `MessageError` and `SchemaIdError`."""
    entry_message = _decode_usual_entry(data)
    if entry_message is not None:
        return entry_message
    items = _load(data)
    message_type = items[0]
    decoder = DECODERS.get(message_type)
    if decoder is None:
        raise UnknownTypeError(f"message type {message_type} is not known")
    message = decoder(items)
    if type(message) is Announce:
        return Announce(message.version, message.timestamp, message.schema_ids, data)
    return message


def encode(message: Message, compat: Compat = "spec") -> bytes:
    """The bytes of a message; `compat` chooses how `Have` is written.

    Raises `SchemaIdError` and `FingerprintSizeError`.
    """
    return ENCODERS[type(message)](message, compat)


def encode_entry_message(session_id: int, entry: bytes, operation: bytes) -> bytes:
    """The bytes of an `EntryMessage`, without making one."""
    return b"".join(
        (
            b"\x84\x02",
            _head(0, session_id),
            _head(0x40, len(entry)),
            entry,
            _head(0x40, len(operation)),
            operation,
        )
    )


def _head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes((major | value,))
    if value < 0x100:
        return bytes((major | 24, value))
    if value < 0x10000:
        return bytes((major | 25, value >> 8, value & 0xFF))
    if value < 0x100000000:
        return bytes((major | 26,)) + value.to_bytes(4, "big")
    return bytes((major | 27,)) + value.to_bytes(8, "big")


def _decode_usual_entry(data: bytes) -> EntryMessage | None:
    """Reads an entry with a small session id and heads of the usual sizes; None for anything else."""
    size = len(data)
    if size < 8 or data[0] != _ARRAY_OF_4 or data[1] != messages.TYPE_ENTRY:
        return None
    session_id = data[2]
    if session_id >= 24 or data[3] != _BYTES_1:
        return None
    entry_end = 5 + data[4]
    if size < entry_end + 3:
        return None
    if data[entry_end] == _BYTES_1:
        operation_start = entry_end + 2
        operation_size = data[entry_end + 1]
    elif data[entry_end] == _BYTES_2:
        operation_start = entry_end + 3
        operation_size = data[entry_end + 1] << 8 | data[entry_end + 2]
    else:
        return None
    if operation_start + operation_size != size:
        return None
    return EntryMessage(session_id, data[5:entry_end], data[operation_start:])


def _load(data: bytes) -> list[Any]:
    try:
        items = cbor.loads(data)
    except TooLargeError as error:
        raise MessageTooLargeError(str(error)) from error
    except cbor.CborError as error:
        raise MalformedMessageError(f"{error} ({error.code})") from error
    if type(items) is not list or not items:
        raise MalformedMessageError("a message is an array that starts with its type")
    if type(items[0]) is not int:
        raise MalformedMessageError("a message type is a number")
    return items


def _schema_ids(value: Any) -> tuple[str, ...]:
    if type(value) is not list:
        raise ItemKindError(f"schema ids are an array, not {type(value).__name__}")
    for text in value:
        if type(text) is not str:
            raise ItemKindError(f"a schema id is text, not {type(text).__name__}")
    return schema_id.normalise(value)


def _decode_announce(items: list[Any]) -> Announce:
    count(items, 4, "an announcement")
    return Announce(u64(items[1], "the version"), u64(items[2], "the timestamp"), _schema_ids(items[3]))


def _encode_announce(message: Announce, _: Compat) -> bytes:
    schema_ids = schema_id.normalise(message.schema_ids)
    return cbor.dumps((messages.TYPE_ANNOUNCE, message.version, message.timestamp, schema_ids))


def _decode_sync_request(items: list[Any]) -> SyncRequest:
    count(items, 4, "a sync request")
    return SyncRequest(u64(items[1], "the session id"), u64(items[2], "the mode"), _schema_ids(items[3]))


def _encode_sync_request(message: SyncRequest, _: Compat) -> bytes:
    schema_ids = schema_id.normalise(message.schema_ids)
    return cbor.dumps((messages.TYPE_SYNC_REQUEST, message.session_id, message.mode, schema_ids))


def _decode_entry(items: list[Any]) -> EntryMessage:
    count(items, 4, "an entry message")
    return EntryMessage(
        u64(items[1], "the session id"), octets(items[2], "the entry"), octets(items[3], "the operation")
    )


def _encode_entry(message: EntryMessage, _: Compat) -> bytes:
    return encode_entry_message(message.session_id, message.entry, message.operation)


def _decode_sync_done(items: list[Any]) -> SyncDone:
    count(items, 3, "a sync done message")
    return SyncDone(u64(items[1], "the session id"), flag(items[2], "the live mode flag"))


def _encode_sync_done(message: SyncDone, _: Compat) -> bytes:
    return cbor.dumps((messages.TYPE_SYNC_DONE, message.session_id, message.live_mode))


def _decode_have(items: list[Any]) -> Have:
    count(items, 3, "a have message")
    return Have(u64(items[1], "the session id"), have_codec.decode_log_heights(items[2]))


def _encode_have(message: Have, compat: Compat) -> bytes:
    log_heights = (have_codec.grouped if compat == "aquadoggo" else have_codec.flat)(message.log_heights)
    return cbor.dumps((messages.TYPE_HAVE, message.session_id, log_heights))


DECODERS: Final[dict[int, Callable[[list[Any]], Message]]] = {
    messages.TYPE_ANNOUNCE: _decode_announce,
    messages.TYPE_SYNC_REQUEST: _decode_sync_request,
    messages.TYPE_ENTRY: _decode_entry,
    messages.TYPE_SYNC_DONE: _decode_sync_done,
    messages.TYPE_HAVE: _decode_have,
    **reconciliation_codec.DECODERS,
}
ENCODERS: Final[dict[type, Callable[[Any, Compat], bytes]]] = {
    Announce: _encode_announce,
    SyncRequest: _encode_sync_request,
    EntryMessage: _encode_entry,
    SyncDone: _encode_sync_done,
    Have: _encode_have,
    **reconciliation_codec.ENCODERS,
}

__all__ = ["DECODERS", "ENCODERS", "Compat", "MessageError", "decode", "encode", "encode_entry_message"]
