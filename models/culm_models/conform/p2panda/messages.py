"""Operations on p2panda messages: encoding one, and decoding a stream of them that arrives in any pieces."""

from __future__ import annotations

from typing import Any

from culm_models.conform.arguments import ArgumentError, Arguments, as_mapping
from culm_models.conform.operation import Machines, Operation
from culm_models.conform.p2panda import reconciliation
from culm_models.p2panda.limits import MAX_MESSAGE_BYTES
from culm_models.p2panda.wire.codec import Compat, Form, encode
from culm_models.p2panda.wire.messages import (
    Announce,
    EntryMessage,
    Have,
    Message,
    SyncDone,
    SyncRequest,
)
from culm_models.p2panda.wire.stream import MessageStream
from culm_models.reconciliation.messages import ReconciliationMessage

_STREAM = "p2panda.stream"
COMPAT: dict[str, Compat] = {"spec": "spec", "aquadoggo": "aquadoggo"}
_FORMS: dict[str, Form] = {"hex": "hex", "compact": "compact"}
_LARGEST_LIMIT_BYTES = 1 << 30


def _message_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    compat = arguments.text("compat") if arguments.has("compat") else "spec"
    if compat not in COMPAT:
        raise ArgumentError(f"compat is not one of {', '.join(COMPAT)}")
    form = arguments.text("form") if arguments.has("form") else "hex"
    if form not in _FORMS:
        raise ArgumentError(f"form is not one of {', '.join(_FORMS)}")
    message = message_from_json(as_mapping(arguments.raw("message"), "message"))
    return {"bytes": encode(message, COMPAT[compat], _FORMS[form]).hex()}


def _stream_open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    limit = arguments.integer(
        "max_message_bytes", least=1, most=_LARGEST_LIMIT_BYTES, default=MAX_MESSAGE_BYTES
    )
    machines.put(_STREAM, arguments.text("name"), MessageStream(max_message_bytes=limit))
    return {}


def _stream_feed(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    stream: MessageStream = machines.get(_STREAM, arguments.text("name"))
    return {"messages": [message_to_json(message) for message in stream.feed(arguments.octets("bytes"))]}


def _stream_close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machines.close(_STREAM, arguments.text("name"))
    return {}


def message_to_json(message: Message) -> dict[str, Any]:
    """A message in the form of docs/conform.md."""
    if isinstance(message, Announce):
        return {
            "type": "announce",
            "version": message.version,
            "timestamp": message.timestamp,
            "schema_ids": list(message.schema_ids),
        }
    if isinstance(message, SyncRequest):
        return {
            "type": "sync_request",
            "session_id": message.session_id,
            "mode": message.mode,
            "schema_ids": list(message.schema_ids),
        }
    if isinstance(message, EntryMessage):
        return {
            "type": "entry",
            "session_id": message.session_id,
            "entry": message.entry.hex(),
            "operation": message.operation.hex(),
        }
    if isinstance(message, SyncDone):
        return {"type": "sync_done", "session_id": message.session_id, "live_mode": message.live_mode}
    if isinstance(message, ReconciliationMessage):
        return reconciliation.to_json(message)
    return {
        "type": "have",
        "session_id": message.session_id,
        "log_heights": [[key.hex(), log_id, seq_num] for key, log_id, seq_num in message.log_heights],
    }


def message_from_json(value: dict[str, Any]) -> Message:
    """The message that a JSON object describes."""
    fields = Arguments(value)
    kind = fields.text("type")
    if kind == "announce":
        return Announce(
            fields.integer("version"), fields.integer("timestamp"), tuple(fields.texts("schema_ids"))
        )
    session_id = fields.integer("session_id")
    if kind == "sync_request":
        return SyncRequest(session_id, fields.integer("mode"), tuple(fields.texts("schema_ids")))
    if kind == "entry":
        return EntryMessage(session_id, fields.octets("entry"), fields.octets("operation"))
    if kind == "sync_done":
        fields.raw("live_mode")
        return SyncDone(session_id, fields.flag("live_mode", False))
    if kind == "have":
        return Have(session_id, tuple(map(_height, fields.items("log_heights"))))
    if kind in reconciliation.FROM_JSON:
        return reconciliation.FROM_JSON[kind](session_id, fields)
    raise ArgumentError(f"there is no message type {kind[:100]!r} here")


def _height(item: Any) -> tuple[bytes, int, int]:
    return reconciliation.as_triple(item, "a log height", least_seq_num=1)


OPERATIONS = [
    Operation(
        "p2panda.message.encode",
        "message, compat? (spec or aquadoggo), form? (hex or compact)",
        "bytes",
        _message_encode,
    ),
    Operation("p2panda.stream.open", "name, max_message_bytes?", "", _stream_open),
    Operation("p2panda.stream.feed", "name, bytes", "messages completed by these bytes", _stream_feed),
    Operation("p2panda.stream.close", "name", "", _stream_close),
]
