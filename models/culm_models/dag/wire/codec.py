"""Encoding of messages as canonical DAG-CBOR lists, whose form is checked only here (reference 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.varint import VARINT_BYTES_MAX, read_varint, write_varint
from culm_models.dag.errors import DagError, DagFrameTooLarge, NodeSchema
from culm_models.dag.wire.messages import (
    CHUNK_SIZE,
    FRAME_LEAST,
    FRAME_MAX,
    POLICIES,
    SHARD_SIZE_MAX,
    SPACE_SIZE,
    VERDICT_SIZE,
    VERSION,
    AckStatus,
    DagAck,
    DagBlocks,
    DagCancel,
    DagChunk,
    DagDone,
    DagHello,
    DagMessage,
    DagOffer,
    DagWant,
)

_INTEGER_MAX: Final = (1 << 64) - 1

T = TypeVar("T")


def frame_of(message: DagMessage, max_frame: int = FRAME_MAX) -> bytes:
    """Encode a message as a frame. Raises `DagFrameTooLarge` if its content exceeds `max_frame` bytes."""
    data = encode_message(message)
    if len(data) > max_frame:
        raise DagFrameTooLarge(f"a frame over {max_frame} bytes")
    return write_varint(len(data)) + data


class DagMessageReader:
    """Reads messages from a stream.

    A fault ends it; the complete messages before the fault are still returned. The results do not depend on
    where the pieces are split. At most one unfinished frame is buffered.
    """

    __slots__ = ("_buffer", "_error", "_max_frame", "_needed", "used")

    def __init__(self, max_frame: int = FRAME_MAX) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        # Bytes that the next step needs.
        self._needed = 1
        self._error: DagError | None = None
        self.used = 0
        """Total size of the complete frames, in bytes."""

    def feed(self, data: bytes) -> list[DagMessage]:
        """Add the next bytes. Returns the messages that are now complete.

        Raises the `DagError` that ended the stream. If complete messages precede the fault in these bytes,
        they are returned and the next call raises it.
        """
        if self._error is not None:
            raise self._error
        self._buffer += data
        messages: list[DagMessage] = []
        if len(self._buffer) < self._needed:
            return messages
        at = 0
        try:
            while (frame := self._frame(at)) is not None:
                start, end = frame
                messages.append(decode_message(bytes(self._buffer[start:end])))
                self.used += end - at
                at = end
        except DagError as error:
            self._error = error
            self._buffer = bytearray()
            if not messages:
                raise
            return messages
        del self._buffer[:at]
        return messages

    def _frame(self, at: int) -> tuple[int, int] | None:
        """Return the offsets of the content of the frame at `at`, or None if the frame is not complete."""
        head = bytes(self._buffer[at : at + VARINT_BYTES_MAX])
        self._needed = 1
        if len(head) < VARINT_BYTES_MAX and all(byte >= 0x80 for byte in head):
            self._needed = len(head) + 1
            return None
        size, start = read_varint(head, 0)
        if size > self._max_frame:
            raise DagFrameTooLarge(f"a frame over {self._max_frame} bytes")
        end = at + start + size
        if end > len(self._buffer):
            self._needed = start + size
            return None
        return at + start, end


def decode_message(data: bytes) -> DagMessage:
    """Decode the content of a frame. Raises `NodeSchema`, `NonCanonical` or `CidMalformed`."""
    value = decode_dag_cbor(data)
    if not isinstance(value, list) or not value:
        raise NodeSchema("a message is a list")
    kind, *fields = value
    if type(kind) is not int or not 0 <= kind < len(_READERS):
        raise NodeSchema("a message of no known kind")
    length, read = _READERS[kind]
    if len(fields) != length:
        raise NodeSchema(f"a message of kind {kind} has {length} fields")
    return read(*fields)


def encode_message(message: DagMessage) -> bytes:
    """Encode the content of a frame. Raises the errors of `decode_message` if the message is malformed."""
    data = encode_dag_cbor(_list_of(message))
    decode_message(data)
    return data


def _list_of(message: DagMessage) -> list[Any]:
    match message:
        case DagHello():
            fields = [message.version, message.max_frame, message.spaces, message.policy, message.verdict]
            return [0, *fields]
        case DagOffer():
            return [1, message.space, message.dag_heads, message.publish_heads, message.shards]
        case DagWant():
            return [2, message.space, message.nodes, message.shards]
        case DagCancel():
            return [3, message.space, message.links]
        case DagBlocks():
            return [4, message.space, message.blocks]
        case DagChunk():
            return [5, message.space, message.shard, message.size, message.offset, message.data]
        case DagAck():
            return [6, message.space, message.results]
        case DagDone():
            return [7, message.space, message.dag_heads, message.tip]


def _hello(version: Any, max_frame: Any, spaces: Any, policy: Any, verdict: Any) -> DagHello:
    if _integer(version) != VERSION:
        raise NodeSchema(f"a HELLO of another version than {VERSION}")
    if policy not in POLICIES:
        raise NodeSchema("a policy that is neither bound nor bearer")
    return DagHello(
        _integer(max_frame, FRAME_LEAST, FRAME_MAX),
        _tuple(spaces, _space),
        policy,
        _octets(verdict, VERDICT_SIZE),
    )


def _offer(space: Any, dag_heads: Any, publish_heads: Any, shards: Any) -> DagOffer:
    return DagOffer(
        _space(space), _tuple(dag_heads, _link), _tuple(publish_heads, _link), _tuple(shards, _sized)
    )


def _sized(value: Any) -> tuple[Cid, int]:
    shard, size = _fields(value, 2)
    return _link(shard), _integer(size, 1, SHARD_SIZE_MAX)


def _want(space: Any, nodes: Any, shards: Any) -> DagWant:
    return DagWant(_space(space), _tuple(nodes, _link), _tuple(shards, _ranges))


def _ranges(value: Any) -> tuple[Cid, tuple[tuple[int, int], ...]]:
    shard, ranges = _fields(value, 2)
    return _link(shard), _tuple(ranges, _range)


def _range(value: Any) -> tuple[int, int]:
    offset, length = _fields(value, 2)
    return _aligned(offset), _integer(length, 1)


def _cancel(space: Any, links: Any) -> DagCancel:
    return DagCancel(_space(space), _tuple(links, _link))


def _blocks(space: Any, blocks: Any) -> DagBlocks:
    return DagBlocks(_space(space), _tuple(blocks, _octets))


def _chunk(space: Any, shard: Any, size: Any, offset: Any, data: Any) -> DagChunk:
    size, offset = _integer(size, 1, SHARD_SIZE_MAX), _aligned(offset)
    if offset >= size:
        raise NodeSchema("a chunk behind the end of its shard")
    return DagChunk(_space(space), _link(shard), size, offset, _octets(data, min(CHUNK_SIZE, size - offset)))


def _ack(space: Any, results: Any) -> DagAck:
    return DagAck(_space(space), _tuple(results, _result))


def _result(value: Any) -> tuple[Cid, int, str | None]:
    link, status, code = _fields(value, 3)
    status = _integer(status, 0, max(AckStatus))
    if status == AckStatus.REFUSED:
        fits = isinstance(code, str)
    else:
        fits = code is None or (status == AckStatus.LATER and isinstance(code, str))
    if not fits:
        raise NodeSchema(f"a code that does not go with status {status}")
    return _link(link), status, code


def _done(space: Any, dag_heads: Any, tip: Any) -> DagDone:
    return DagDone(_space(space), _tuple(dag_heads, _link), None if tip is None else _link(tip))


_READERS: Final[tuple[tuple[int, Callable[..., DagMessage]], ...]] = (
    (5, _hello),
    (4, _offer),
    (3, _want),
    (2, _cancel),
    (2, _blocks),
    (5, _chunk),
    (2, _ack),
    (3, _done),
)


def _tuple(value: Any, item: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise NodeSchema("not a list")
    return tuple(map(item, value))


def _fields(value: Any, count: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != count:
        raise NodeSchema(f"not a list of {count}")
    return value


def _integer(value: Any, least: int = 0, limit: int = _INTEGER_MAX) -> int:
    if type(value) is not int or not least <= value <= limit:
        raise NodeSchema(f"not an integer from {least} to {limit}")
    return value


def _aligned(value: Any) -> int:
    if _integer(value) % CHUNK_SIZE:
        raise NodeSchema(f"an offset that is no multiple of {CHUNK_SIZE}")
    return int(value)


def _octets(value: Any, size: int | None = None) -> bytes:
    if not isinstance(value, bytes) or (size is not None and len(value) != size):
        raise NodeSchema("not bytes of this size")
    return value


def _space(value: Any) -> bytes:
    return _octets(value, SPACE_SIZE)


def _link(value: Any) -> Cid:
    if not isinstance(value, Cid):
        raise NodeSchema("not a link")
    return value
