"""Messages through lines (reference 6): objects by ``type``, and frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_octets
from culm_models.conform.dag.arguments import as_cid, operation
from culm_models.conform.operation import Machines
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.frames import FrameReader, frame_of
from culm_models.dag.wire.messages import (
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

_From = Callable[[Any], Any]


def _integer(value: Any) -> int:
    return as_integer(value, "an integer")


def _octets(value: Any) -> bytes:
    return as_octets(value, "bytes")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError("not a string")
    return value


def _cid(value: Any) -> Cid:
    return as_cid(value, "a CID")


def _optional(inner: _From) -> _From:
    return lambda value: None if value is None else inner(value)


def _list(inner: _From) -> _From:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ArgumentError("not a list")
        return tuple(map(inner, value))

    return read


def _row(*inner: _From) -> _From:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(inner):
            raise ArgumentError(f"not a list of {len(inner)}")
        return tuple(one(item) for one, item in zip(inner, value, strict=True))

    return read


_SPACE: Final[dict[str, _From]] = {"space": _octets}
# By type: the class, and each field with how JSON has it. Only CHUNK's `bytes` has another name here.
_TYPES: Final[dict[str, tuple[Callable[..., DagMessage], dict[str, _From]]]] = {
    "hello": (
        DagHello,
        {
            "version": _integer,
            "max_frame": _integer,
            "spaces": _list(_octets),
            "policy": _text,
            "verdict": _octets,
        },
    ),
    "offer": (
        DagOffer,
        {
            **_SPACE,
            "dag_heads": _list(_cid),
            "publish_heads": _list(_cid),
            "shards": _list(_row(_cid, _integer)),
        },
    ),
    "want": (
        DagWant,
        {
            **_SPACE,
            "nodes": _list(_cid),
            "shards": _list(_row(_cid, _list(_row(_integer, _integer)))),
        },
    ),
    "cancel": (DagCancel, {**_SPACE, "links": _list(_cid)}),
    "node": (DagBlocks, {**_SPACE, "blocks": _list(_octets)}),
    "chunk": (
        DagChunk,
        {**_SPACE, "shard": _cid, "size": _integer, "offset": _integer, "bytes": _octets},
    ),
    "ack": (DagAck, {**_SPACE, "results": _list(_row(_cid, _integer, _optional(_text)))}),
    "done": (DagDone, {**_SPACE, "dag_heads": _list(_cid), "tip": _optional(_cid)}),
}
_NAMES: Final = {kind: name for name, (kind, _) in _TYPES.items()}
_ATTRIBUTES: Final = {"bytes": "data"}


def _encode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    given = arguments.mapping("message")
    name = given.get("type")
    if not isinstance(name, str) or name not in _TYPES:
        raise ArgumentError("the message has no known type")
    kind, fields = _TYPES[name]
    if given.keys() - {"type"} - fields.keys():
        raise ArgumentError(f"a message {name} has other members")
    values = {}
    for field, read in fields.items():
        if field not in given and field != "tip":
            raise ArgumentError(f"the message lacks {field}")
        values[_ATTRIBUTES.get(field, field)] = read(given.get(field))
    return {"bytes": frame_of(kind(**values)).hex()}


def _decode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    reader = FrameReader()
    messages = reader.feed(arguments.octets("bytes"))
    # A fault behind whole frames is this answer's as well.
    reader.feed(b"")
    return {"messages": [message_to_json(message) for message in messages], "used": reader.used}


def message_to_json(message: DagMessage) -> dict[str, Any]:
    """A message as an object."""
    name = _NAMES[type(message)]
    fields = _TYPES[name][1]
    found = {field: _to_json(getattr(message, _ATTRIBUTES.get(field, field))) for field in fields}
    return {"type": name, **found}


def _to_json(value: Any) -> Any:
    if isinstance(value, Cid):
        return value.text
    if isinstance(value, bytes):
        return value.hex()
    return [_to_json(item) for item in value] if isinstance(value, tuple) else value


OPERATIONS: Final = (
    operation("dag.message.encode", "message", "bytes (a frame)", _encode),
    operation("dag.message.decode", "bytes", "messages, used (whole frames)", _decode),
)
