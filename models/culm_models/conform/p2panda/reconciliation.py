"""The messages of set reconciliation as JSON, in the form of docs/conform.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_octets
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.wire.reconciliation_messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)
from culm_models.reconciliation.messages import ReconciliationMessage

_TYPES: dict[type[ReconciliationMessage], str] = {
    EmptySet: "empty_set",
    LowerBound: "lower_bound",
    Payload: "payload",
    EmptyPayload: "empty_payload",
    Done: "done",
    Fingerprint: "fingerprint",
    Terminal: "terminal",
}


def to_json(message: ReconciliationMessage) -> dict[str, Any]:
    """A message as an object; what it does not carry is left out."""
    shown: dict[str, Any] = {"type": _TYPES[type(message)], "session_id": message.session_id}
    match message:
        case EmptySet():
            shown["can_respond"] = message.can_respond
        case LowerBound():
            shown["value"] = _shown_triple(message.value)
        case Payload():
            shown["value"] = _shown_triple(message.value)
            if message.can_respond is not None:
                shown["can_respond"] = message.can_respond
            if message.upper_bound is not None:
                shown["upper_bound"] = _shown_triple(message.upper_bound)
        case EmptyPayload() | Done():
            shown["upper_bound"] = _shown_triple(message.upper_bound)
        case Fingerprint():
            shown["fingerprint"] = message.fingerprint.hex()
            shown["upper_bound"] = _shown_triple(message.upper_bound)
    return shown


def _shown_triple(triple: tuple[bytes, int, int]) -> list[Any]:
    public_key, log_id, seq_num = triple
    return [public_key.hex(), log_id, seq_num]


def as_triple(value: Any, name: str, *, least_seq_num: int) -> tuple[bytes, int, int]:
    """`[public_key, log_id, seq_num]` with a sequence number from ``least_seq_num``."""
    if not isinstance(value, list) or len(value) != 3:
        raise ArgumentError(f"{name} is [public_key, log_id, seq_num]")
    public_key, log_id, seq_num = value
    return (
        as_octets(public_key, "public_key", size=PUBLIC_KEY_SIZE),
        as_integer(log_id, "log_id"),
        as_integer(seq_num, "seq_num", least=least_seq_num),
    )


def _bound(fields: Arguments, name: str) -> tuple[bytes, int, int]:
    return as_triple(fields.raw(name), name, least_seq_num=0)


def _flag(fields: Arguments, name: str) -> bool:
    fields.raw(name)
    return fields.flag(name, False)


def _payload(session_id: int, fields: Arguments) -> Payload:
    value = as_triple(fields.raw("value"), "value", least_seq_num=0)
    can_respond = _flag(fields, "can_respond") if fields.has("can_respond") else None
    upper_bound = _bound(fields, "upper_bound") if fields.has("upper_bound") else None
    if upper_bound is not None and can_respond is None:
        raise ArgumentError("a payload has an upper_bound only with a can_respond")
    return Payload(session_id, value, can_respond, upper_bound)


FROM_JSON: dict[str, Callable[[int, Arguments], ReconciliationMessage]] = {
    "empty_set": lambda session_id, fields: EmptySet(session_id, _flag(fields, "can_respond")),
    "lower_bound": lambda session_id, fields: LowerBound(session_id, _bound(fields, "value")),
    "payload": _payload,
    "empty_payload": lambda session_id, fields: EmptyPayload(session_id, _bound(fields, "upper_bound")),
    "done": lambda session_id, fields: Done(session_id, _bound(fields, "upper_bound")),
    "fingerprint": lambda session_id, fields: Fingerprint(
        session_id, fields.octets("fingerprint"), _bound(fields, "upper_bound")
    ),
    "terminal": lambda session_id, _: Terminal(session_id),
}
"""By type, what reads such a message off its session id and its other members."""
