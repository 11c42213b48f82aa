"""Bytes to messages and back (specification "replication"): a CBOR array whose first item is the type.

`DECODERS` and `ENCODERS` are tables by message type and message class: a message joins the protocol by a row
in each. Schema ids are written as a sorted set and accepted in any order. `Have` is written as the flat list
of the specification or grouped by public key as in the aquadoggo node, and read in either form.
`reconciliation_codec` reads and writes types 20 to 26.

A link is a plain concatenation of messages without a length prefix; `MessageStream` separates them.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from culm_models import cbor
from culm_models.cbor import ItemScanner
from culm_models.cbor.scanner import NUMBER, OCTETS, head
from culm_models.cbor.strict import CborError, TooLargeError
from culm_models.errors import CulmError
from culm_models.p2panda.errors import (
    ItemKindError,
    MalformedMessageError,
    MessageError,
    MessageTooLargeError,
    TruncatedMessageError,
    UnknownTypeError,
)
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.wire import fast_decoder as usual_messages
from culm_models.p2panda.wire import have_codec, messages, reconciliation_codec
from culm_models.p2panda.wire.items import count, flag, octets, u64
from culm_models.p2panda.wire.messages import (
    MAX_MESSAGE_BYTES,
    Announce,
    EntryMessage,
    Have,
    Message,
    SyncDone,
    SyncRequest,
)
from culm_models.p2panda.wire.reconciliation_codec import Form, encode_many
from culm_models.reconciliation.messages import ReconciliationMessage

Compat = Literal["spec", "aquadoggo"]


def decode(data: bytes) -> Message:
    """Decode one message. Raises `MessageError` and `SchemaIdError`."""
    items = _load(data)
    message_type = items[0]
    decoder = DECODERS.get(message_type)
    if decoder is None:
        raise UnknownTypeError(f"message type {message_type} is not known")
    message = decoder(items)
    if type(message) is Announce:
        return Announce(message.version, message.timestamp, message.schema_ids, data)
    return message


def encode(message: Message, compat: Compat = "spec", form: Form = "hex") -> bytes:
    """Encode a message; `compat` selects the form of `Have`, `form` that of set reconciliation.

    Raises `SchemaIdError` and `FingerprintSizeError`. `reconciliation_codec.encode_many` is faster for many
    messages of set reconciliation.
    """
    if isinstance(message, ReconciliationMessage):
        return encode_many((message,), form)
    return ENCODERS[type(message)](message, compat)


def encode_entry_message(session_id: int, entry: bytes, operation: bytes) -> bytes:
    """Return the bytes of an `EntryMessage` without creating one."""
    return b"".join(
        (
            b"\x84\x02",
            head(NUMBER, session_id),
            head(OCTETS, len(entry)),
            entry,
            head(OCTETS, len(operation)),
            operation,
        )
    )


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
    return identifiers.normalise(_texts(value))


def _texts(value: Any) -> list[str]:
    if type(value) is not list:
        raise ItemKindError(f"schema ids are an array, not {type(value).__name__}")
    for text in value:
        if type(text) is not str:
            raise ItemKindError(f"a schema id is text, not {type(text).__name__}")
    return value


def _decode_announce(items: list[Any]) -> Announce:
    count(items, 4, "an announcement")
    # A later version may announce names of another form. They have no meaning here and are ignored.
    known = filter(identifiers.is_schema_id, _texts(items[3]))
    return Announce(
        u64(items[1], "the version"), u64(items[2], "the timestamp"), identifiers.normalise(known)
    )


def _encode_announce(message: Announce, _: Compat) -> bytes:
    schema_ids = identifiers.normalise(message.schema_ids)
    return cbor.dumps((messages.TYPE_ANNOUNCE, message.version, message.timestamp, schema_ids))


def _decode_sync_request(items: list[Any]) -> SyncRequest:
    count(items, 4, "a sync request")
    return SyncRequest(u64(items[1], "the session id"), u64(items[2], "the mode"), _schema_ids(items[3]))


def _encode_sync_request(message: SyncRequest, _: Compat) -> bytes:
    schema_ids = identifiers.normalise(message.schema_ids)
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
}

__all__ = [
    "DECODERS",
    "ENCODERS",
    "Compat",
    "Form",
    "MessageError",
    "decode",
    "encode",
    "encode_entry_message",
    "encode_many",
]


# A `Have` whose logs fit with their keys as text, 68 bytes each, has up to 6 items for each log when grouped.
BYTES_AN_ITEM: Final = 11
FEWEST_ITEMS: Final = 2_048
"""Items that a message of any other type needs: an announcement names up to a thousand schemas."""
_MAX_COUNTED: Final = 1_024


class MessageStream:
    """Separates one direction of a link into messages, wherever the bytes were split.

    An error ends the stream, since nothing after it can be trusted. Messages that were complete before it are
    still returned, and the next `feed` raises the error (at once if there were no messages before it).
    `error` holds it in either case. A message of more than `max_message_items` CBOR items is refused before
    any part of it is decoded; the default is one item for every `BYTES_AN_ITEM` bytes of `max_message_bytes`.
    """

    __slots__ = ("_left", "_scanner", "error", "items_taken", "reconciliation_bytes")

    def __init__(
        self, max_message_bytes: int = MAX_MESSAGE_BYTES, max_message_items: int | None = None
    ) -> None:
        if max_message_items is None:
            max_message_items = max(FEWEST_ITEMS, max_message_bytes // BYTES_AN_ITEM)
        self._scanner = ItemScanner(max_message_bytes, max_items=max_message_items)
        self._left = b""
        self.items_taken = 0
        """CBOR items so far in messages that were not of a usual shape: these cost the most to decode."""
        self.error: CulmError | None = None
        self.reconciliation_bytes: dict[int, int] = {}
        """Bytes of the messages of set reconciliation so far, by session id; the reader removes the entries.

        A remote chooses the ids: no more than `_MAX_COUNTED` of them are counted.
        """

    @property
    def pending(self) -> int:
        """Number of held bytes of an unfinished message."""
        return self._scanner.pending

    @property
    def is_left(self) -> bool:
        """Whether `feed` returned before it processed all bytes, because it reached `max_decoded`."""
        return bool(self._left)

    def feed(self, data: bytes, max_decoded: int | None = None) -> list[Message]:
        """Process the next bytes of the stream; return the messages that are complete now, in order.

        Returns after `max_decoded` messages that were not of a usual shape, if it is set; while `is_left`,
        `feed(b"")` continues. Raises the error that ended the stream: a `MessageError` or a `SchemaIdError`.
        """
        if self.error is not None:
            raise self.error
        if self._left:
            data, self._left = self._left + data, b""
        messages: list[Message] = []
        try:
            self._cut(data, messages, max_decoded)
        except CborError as error:
            self.error = _named(error)
        except CulmError as error:
            self.error = error.with_traceback(None)
        if self.error is not None:
            self._scanner = ItemScanner(1)
            if not messages:
                raise self.error
        return messages

    def end(self) -> None:
        """Process the end of the stream.

        Raises the error that ended the stream before, or `TruncatedMessageError`.
        """
        if self.error is None and self.pending:
            self.error = TruncatedMessageError(f"the stream ended {self.pending} bytes into a message")
        if self.error is not None:
            raise self.error

    def _cut(self, data: bytes, messages: list[Message], max_decoded: int | None) -> None:
        """Read usual messages in one go; read all other and unfinished ones with the strict scanner."""
        at = decoded = 0
        while at < len(data):
            if not self._scanner.pending:
                at = usual_messages.read(data, at, self._scanner.max_bytes, messages, self._count)
                if at == len(data):
                    return
            if decoded == max_decoded:
                self._left = data[at:]
                return
            item, at = self._scanner.take(data, at)
            if item is not None:
                decoded += 1
                self.items_taken = self._scanner.items_taken
                message = decode(item)
                messages.append(message)
                if isinstance(message, ReconciliationMessage):
                    self._count(message.session_id, len(item))

    def _count(self, session_id: int, size: int) -> None:
        counted = self.reconciliation_bytes.get(session_id)
        if counted is not None or len(self.reconciliation_bytes) < _MAX_COUNTED:
            self.reconciliation_bytes[session_id] = (counted or 0) + size


def _named(error: CborError) -> CulmError:
    if isinstance(error, TooLargeError):
        return MessageTooLargeError(str(error))
    return MalformedMessageError(f"{error} ({error.code})")
