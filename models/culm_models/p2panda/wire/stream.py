"""Messages out of a byte stream (reference: a bare concatenation of CBOR items, no length prefix)."""

from typing import Final

from culm_models.cbor import ItemScanner
from culm_models.cbor.errors import CborError, TooLargeError
from culm_models.errors import CulmError
from culm_models.p2panda.limits import MAX_MESSAGE_BYTES
from culm_models.p2panda.wire import fast_decoder as usual_messages
from culm_models.p2panda.wire.codec import decode
from culm_models.p2panda.wire.errors import MalformedMessageError, MessageTooLargeError, TruncatedMessageError
from culm_models.p2panda.wire.messages import Message
from culm_models.reconciliation.messages import ReconciliationMessage

# A `Have` whose logs would fit with their keys as text, 68 bytes each, has up to 6 items a log when grouped.
BYTES_AN_ITEM: Final = 11
FEWEST_ITEMS: Final = 2_048
"""What a message of any other type needs: an announcement names up to a thousand schemas."""
_MAX_COUNTED: Final = 1_024


class MessageStream:
    """Cuts one direction of a link into messages, wherever the bytes were split.

    A fault ends the stream, since nothing after it can be trusted: messages that were complete before it
    are still returned, and the error is raised by the following `feed` (at once where none came before).
    `error` shows it in either case. A message of more than `max_message_items` CBOR items is refused before
    any of it is decoded; by default one item for every `BYTES_AN_ITEM` bytes of `max_message_bytes`.
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
        """CBOR items of the messages so far that were not of a usual shape: these cost the most to decode."""
        self.error: CulmError | None = None
        self.reconciliation_bytes: dict[int, int] = {}
        """What the messages of set reconciliation took up so far, by session id; whoever asks takes it out.

        A remote chooses the ids: beyond `_MAX_COUNTED` of them no more are counted.
        """

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished message are held."""
        return self._scanner.pending

    @property
    def is_left(self) -> bool:
        """Whether `feed` returned before all bytes were looked at, because it decoded as many as allowed."""
        return bool(self._left)

    def feed(self, data: bytes, max_decoded: int | None = None) -> list[Message]:
        """Take the next bytes of the stream; return the messages that are complete now, in order.

        Returns after `max_decoded` messages that were not of a usual shape, if it is set; while `is_left`,
        `feed(b"")` goes on. Raises the error that ended the stream: a `MessageError` or a `SchemaIdError`.
        """
        if self.error is not None:
            raise self.error
        if self._left:
            data, self._left = self._left + data, b""
        found: list[Message] = []
        try:
            self._cut(data, found, max_decoded)
        except CborError as error:
            self.error = _named(error)
        except CulmError as error:
            self.error = error.with_traceback(None)
        if self.error is not None:
            self._scanner = ItemScanner(1)
            if not found:
                raise self.error
        return found

    def end(self) -> None:
        """Take the end of the stream. Raises the error that ended it before, or `TruncatedMessageError`."""
        if self.error is None and self.pending:
            self.error = TruncatedMessageError(f"the stream ended {self.pending} bytes into a message")
        if self.error is not None:
            raise self.error

    def _cut(self, data: bytes, found: list[Message], max_decoded: int | None) -> None:
        """Usual messages in one go, every other one and what is unfinished by the strict way."""
        at = decoded = 0
        while at < len(data):
            if not self._scanner.pending:
                at = usual_messages.read(data, at, self._scanner.max_bytes, found, self._count)
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
                found.append(message)
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
