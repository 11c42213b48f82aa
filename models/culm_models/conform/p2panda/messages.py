"""Operations on p2panda messages: encoding a message, and decoding a stream that arrives in pieces."""

from __future__ import annotations

import math
from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_mapping, as_octets
from culm_models.conform.forms import (
    HIDDEN,
    Choice,
    MemberForm,
    RecordForm,
    integer,
    octets,
    optional,
    row,
    sequence,
)
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.operations.identifiers import SchemaId, view_id
from culm_models.p2panda.operations.operation import ACTIONS, Value, decode_operation, encode_operation
from culm_models.p2panda.wire.codec import Compat, Form, MessageStream, encode
from culm_models.p2panda.wire.messages import (
    MAX_MESSAGE_BYTES,
    Announce,
    EntryMessage,
    Have,
    SyncDone,
    SyncRequest,
)
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)

_FLOAT_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _operation_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    operation = decode_operation(arguments.octets("operation"))
    answer: dict[str, Any] = {
        "version": operation.version,
        "action": operation.action,
        "schema_id": operation.schema_id,
    }
    if operation.previous is not None:
        answer["previous"] = [operation_id.hex() for operation_id in operation.previous]
    if operation.fields is not None:
        answer["fields"] = {name: field_to_json(value) for name, value in operation.fields.items()}
    return answer


def _operation_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    action = arguments.text("action")
    if action not in ACTIONS:
        raise ArgumentError(f"action is not one of {', '.join(ACTIONS)}")
    arguments.integer("version", min_value=1, max_value=1, default=1)
    previous = fields = None
    if arguments.has("previous"):
        previous = tuple(sorted({as_octets(item, "previous") for item in arguments.items("previous")}))
    if arguments.has("fields"):
        fields = {name: field_from_json(name, item) for name, item in arguments.mapping("fields").items()}
    operation = encode_operation(action, arguments.text("schema_id"), previous=previous, fields=fields)
    return {"operation": operation.hex()}


def _schema_id_parse(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    schema = SchemaId.parse(arguments.text("schema_id"))
    if schema.is_system:
        return {"kind": "system", "name": schema.name, "version": schema.version}
    return {"kind": "application", "name": schema.name, "view_id": list(schema.operation_ids)}


def field_to_json(value: Value) -> dict[str, Any]:
    """Return a field's value with its type, as far as the bytes alone determine it."""
    if isinstance(value, bool):
        return {"type": "bool", "value": value}
    if isinstance(value, int):
        return {"type": "int", "value": value}
    if isinstance(value, float):
        word = next((word for word, odd in _FLOAT_WORDS.items() if repr(odd) == repr(value)), None)
        return {"type": "float", "value": word or value}
    if isinstance(value, str):
        return {"type": "str", "value": value}
    if isinstance(value, bytes):
        return {"type": "bytes", "value": value.hex()}
    if value and isinstance(value[0], tuple):
        return {"type": "pinned_relation_list", "value": [[item.hex() for item in view] for view in value]}
    return {"type": "relation_list", "value": [item.hex() for item in value if isinstance(item, bytes)]}


def field_from_json(name: str, item: Any) -> Value:
    """Return a field's value from its JSON form; view ids are sorted."""
    kind = as_mapping(item, name).get("type")
    value = item.get("value")
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int":
        return as_integer(value, name, min_value=-(1 << 63), max_value=(1 << 63) - 1)
    if kind == "float":
        return _float(name, value)
    if kind == "str" and isinstance(value, str):
        return value
    if kind in ("bytes", "relation"):
        return as_octets(value, name)
    if kind in ("relation_list", "pinned_relation") and isinstance(value, list):
        ids = tuple(as_octets(part, name) for part in value)
        return view_id(ids) if kind == "pinned_relation" else ids
    if kind == "pinned_relation_list" and isinstance(value, list) and all(isinstance(v, list) for v in value):
        # An empty view id is invalid, but nodes accept it in such a list.
        return tuple(view_id(as_octets(part, name) for part in view) if view else () for view in value)
    raise ArgumentError(f"the field {name[:100]!r} has no type that fits its value")


def _float(name: str, value: Any) -> float:
    if isinstance(value, str) and value in _FLOAT_WORDS:
        return _FLOAT_WORDS[value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise ArgumentError(f"{name} is not a number that a float can hold")


_STREAMS: Final = MachineKind[MessageStream]("p2panda.stream")
_COMPAT: Final[dict[str, Compat]] = {"spec": "spec", "aquadoggo": "aquadoggo"}
_FORMS: Final[dict[str, Form]] = {"hex": "hex", "compact": "compact"}
_LARGEST_LIMIT_BYTES: Final = 1 << 30
_KEY: Final = octets(PUBLIC_KEY_SIZE)
_TRIPLE: Final = row(_KEY, integer(), integer())
_RECONCILIATION: Final = {Any: _TRIPLE}
"""Items and bounds of set reconciliation: public key, log id, sequence number."""
MESSAGES: Final = Choice(
    _RECONCILIATION,
    {"raw": HIDDEN},
    announce=Announce,
    sync_request=SyncRequest,
    entry=EntryMessage,
    sync_done=SyncDone,
    have=RecordForm(
        Have, members={"log_heights": MemberForm(sequence(row(_KEY, integer(), integer(min_value=1))))}
    ),
    empty_set=EmptySet,
    lower_bound=LowerBound,
    payload=RecordForm(Payload, _RECONCILIATION, {"upper_bound": MemberForm(optional(_TRIPLE))}),
    empty_payload=EmptyPayload,
    done=Done,
    fingerprint=RecordForm(Fingerprint, _RECONCILIATION, {"fingerprint": MemberForm(octets())}),
    terminal=Terminal,
)
"""The messages of p2panda, in the form of docs/conform.md."""


def _message_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    compat = arguments.word("compat", _COMPAT, default="spec")
    form = arguments.word("form", _FORMS, default="hex")
    members = arguments.mapping("message")
    fields = Arguments(members)
    if members.get("type") == "payload" and fields.has("upper_bound") and not fields.has("can_respond"):
        raise ArgumentError("a payload has an upper_bound only with a can_respond")
    return {"bytes": encode(MESSAGES.read(members), compat, form).hex()}


def _stream_open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    limit = arguments.integer(
        "max_message_bytes", min_value=1, max_value=_LARGEST_LIMIT_BYTES, default=MAX_MESSAGE_BYTES
    )
    _STREAMS.put(machines, arguments, MessageStream(max_message_bytes=limit))
    return {}


def _stream_feed(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    messages = _STREAMS.get(machines, arguments).feed(arguments.octets("bytes"))
    return {"messages": [MESSAGES.show(message) for message in messages]}


OPERATIONS = [
    ConformOperation(
        "p2panda.operation.decode",
        "operation",
        "version, action, schema_id, previous?, fields? as {name: {type, value}}",
        _operation_decode,
    ),
    ConformOperation(
        "p2panda.operation.encode",
        "action, schema_id, previous?, fields? as {name: {type, value}}",
        "operation",
        _operation_encode,
    ),
    ConformOperation(
        "p2panda.schema_id.parse", "schema_id", "kind, name, version or view_id", _schema_id_parse
    ),
    ConformOperation(
        "p2panda.message.encode",
        "message, compat? (spec or aquadoggo), form? (hex or compact)",
        "bytes",
        _message_encode,
    ),
    ConformOperation("p2panda.stream.open", "name, max_message_bytes?", "", _stream_open),
    ConformOperation("p2panda.stream.feed", "name, bytes", "messages completed by these bytes", _stream_feed),
    ConformOperation("p2panda.stream.close", "name", "", _STREAMS.close),
]
