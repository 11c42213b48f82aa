"""Messages out of a byte stream (reference: a bare concatenation of CBOR items, no length prefix)."""

from typing import Final

from culm_models.cbor import ItemScanner
from culm_models.cbor.errors import CborError, TooLargeError
from culm_models.errors import CulmError
from culm_models.p2panda.codec import decode
from culm_models.p2panda.message_errors import MalformedMessageError, MessageTooLargeError
from culm_models.p2panda.messages import Message

DEFAULT_MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024


class MessageStream:
    """Cuts one direction of a link into messages, wherever the bytes were split.

    A fault ends the stream, since nothing after it can be trusted: messages that were complete before it
    are still returned, and the error is raised by the following `feed` (at once where none came before).
    `error` shows it in either case.
    """

    __slots__ = ("_scanner", "error")

    def __init__(self, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._scanner = ItemScanner(max_message_bytes)
        self.error: CulmError | None = None

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished message are held."""
        return self._scanner.pending

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes of the stream; return the messages that are complete now, in order.

        Raises the error that ended the stream: a `MessageError` or a `SchemaIdError`.
        """
        if self.error is not None:
            raise self.error
        found: list[Message] = []
        try:
            items = self._scanner.feed(data)
            for item in items:
                found.append(decode(item))  # noqa: PERF401 - what came before a fault is kept
        except CborError as error:
            self.error = _named(error)
        except CulmError as error:
            self.error = error.with_traceback(None)
        else:
            if self._scanner.error is not None:
                self.error = _named(self._scanner.error)
        if self.error is not None:
            self._scanner = ItemScanner(1)
            if not found:
                raise self.error
        return found


def _named(error: CborError) -> CulmError:
    if isinstance(error, TooLargeError):
        return MessageTooLargeError(str(error))
    return MalformedMessageError(f"{error} ({error.code})")
