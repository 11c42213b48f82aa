"""Messages of both channels as JSON objects, and back: `type` and fields, absent ones left out."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.hashes import FLAVOURS, YAMF, HashFlavour
from culm_models.bamboo_p2p.errors import Malformed
from culm_models.bamboo_p2p.wire.messages import (
    MAX_SIZE,
    Adjust,
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    ControlMessage,
    DataMessage,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    Propose,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from culm_models.conform.arguments import ArgumentError, Arguments, as_octets
from culm_models.keys import PUBLIC_KEY_SIZE, SIGNATURE_SIZE

Chosen = TypeVar("Chosen")

_EAGERNESS: Final = {"notify": Eagerness.NOTIFY, "threshold": Eagerness.THRESHOLD, "all": Eagerness.ALL}
_EAGERNESS_NAMES: Final = {value: name for name, value in _EAGERNESS.items()}
_SKIPS: Final = {
    "too_small": SkipReason.TOO_SMALL,
    "too_large": SkipReason.TOO_LARGE,
    "unavailable": SkipReason.UNAVAILABLE,
}
_SKIP_NAMES: Final = {value: name for name, value in _SKIPS.items()}


def flavour_of(arguments: Arguments, default: HashFlavour = YAMF) -> HashFlavour:
    """The argument `hash`."""
    if not arguments.has("hash"):
        return default
    return one_of(arguments, "hash", FLAVOURS)


def one_of(arguments: Arguments, name: str, choices: dict[str, Chosen]) -> Chosen:
    """An argument that is one of some words."""
    word = arguments.text(name)
    if word not in choices:
        raise ArgumentError(f"{name} is not one of {', '.join(choices)}")
    return choices[word]


def eagerness_of(arguments: Arguments) -> Eagerness | None:
    """The argument `eagerness`, if it is there."""
    return one_of(arguments, "eagerness", _EAGERNESS) if arguments.has("eagerness") else None


def cancel_code_of(arguments: Arguments, default: CancelCode | None = None) -> CancelCode:
    """The argument `code`, 128 to 135."""
    if default is not None and not arguments.has("code"):
        return default
    return CancelCode(arguments.integer("code", least=CancelCode.REFUSED, most=CancelCode.FORKED))


def optional_integer(arguments: Arguments, name: str) -> int | None:
    """An integer, or None when left out."""
    return arguments.integer(name) if arguments.has(name) else None


def hash_of(arguments: Arguments, name: str, flavour: HashFlavour) -> bytes | None:
    """A hash of the connection's flavour, or None when left out."""
    given = arguments.optional_octets(name)
    if given is not None and not flavour.has_form(given):
        raise ArgumentError(f"{name} is no {flavour.name} hash of {flavour.size} bytes")
    return given


def control_from_json(given: dict[str, Any], flavour: HashFlavour) -> ControlMessage:
    """A control message. Evidence that is no entry raises `Malformed`."""
    arguments = Arguments(given)
    kind = arguments.text("type")
    if kind == "grant":
        return Grant(arguments.integer("credit"))
    if kind == "propose":
        return propose_from_json(arguments, flavour)
    if kind == "adjust":
        return adjust_from_json(arguments, arguments.integer("id"))
    if kind == "cancel":
        return Cancel(
            arguments.integer("id"),
            cancel_code_of(arguments),
            optional_integer(arguments, "seq_num"),
            tuple(_entry(one, flavour) for one in arguments.items("entries", default=[])),
        )
    raise ArgumentError(f"there is no control message {kind[:100]!r}")


def _entry(given: Any, flavour: HashFlavour) -> bytes:
    data = as_octets(given, "entries")
    try:
        decode_entry(data, flavour)
    except BambooError as error:
        raise Malformed(f"evidence that is no {flavour.name} entry: {error}") from None
    return data


def propose_from_json(arguments: Arguments, flavour: HashFlavour) -> Propose:
    """A proposal as it is on the wire."""
    eagerness = eagerness_of(arguments)
    if eagerness is None:
        raise ArgumentError("the argument 'eagerness' is missing")
    return Propose(
        arguments.integer("id"),
        arguments.octets("public_key", size=PUBLIC_KEY_SIZE),
        arguments.integer("log_id"),
        arguments.integer("start"),
        optional_integer(arguments, "lower"),
        arguments.integer("min", default=0),
        arguments.integer("max", default=MAX_SIZE),
        hash_of(arguments, "expected_hash", flavour),
        eagerness,
        optional_integer(arguments, "threshold"),
        optional_integer(arguments, "end"),
        optional_integer(arguments, "upper"),
        optional_integer(arguments, "offset"),
        payload_only=arguments.flag("payload_only", False),
        sparse=arguments.flag("sparse", False),
        mandatory=arguments.flag("mandatory", False),
    )


def adjust_from_json(arguments: Arguments, request_id: int) -> Adjust:
    """An adjustment of a request."""
    return Adjust(
        request_id,
        eagerness_of(arguments),
        optional_integer(arguments, "threshold"),
        may_skip=arguments.flag("may_skip", False),
        end=optional_integer(arguments, "end"),
        upper=optional_integer(arguments, "upper"),
        min_size=optional_integer(arguments, "min"),
        max_size=optional_integer(arguments, "max"),
    )


def control_to_json(message: ControlMessage) -> dict[str, Any]:
    """A control message as JSON."""
    match message:
        case Grant():
            return {"type": "grant", "credit": message.credit}
        case Propose():
            fields: dict[str, Any] = {
                "type": "propose",
                "id": message.id,
                "public_key": message.public_key.hex(),
                "log_id": message.log_id,
                "start": message.start,
                "lower": message.lower,
                "min": message.min_size,
                "max": message.max_size,
                "expected_hash": message.expected_hash.hex() if message.expected_hash is not None else None,
                "eagerness": _EAGERNESS_NAMES[message.eagerness],
                "threshold": message.threshold,
                "end": message.end,
                "upper": message.upper,
                "offset": message.offset,
                "payload_only": message.payload_only or None,
                "sparse": message.sparse or None,
                "mandatory": message.mandatory or None,
            }
        case Adjust():
            fields = {
                "type": "adjust",
                "id": message.id,
                "eagerness": _EAGERNESS_NAMES[message.eagerness] if message.eagerness else None,
                "threshold": message.threshold,
                "may_skip": message.may_skip or None,
                "end": message.end,
                "upper": message.upper,
                "min": message.min_size,
                "max": message.max_size,
            }
        case Cancel():
            fields = {
                "type": "cancel",
                "id": message.id,
                "code": int(message.code),
                "seq_num": message.seq_num,
                "entries": [entry.hex() for entry in message.entries] or None,
            }
    return {name: value for name, value in fields.items() if value is not None}


def data_from_json(given: dict[str, Any], flavour: HashFlavour) -> DataMessage:
    """A data message without the bytes of a payload, which `codecs` puts behind it."""
    arguments = Arguments(given)
    kind = arguments.text("type")
    match kind:
        case "switch":
            return Switch(arguments.integer("id"))
        case "cancelled":
            return Cancelled(arguments.integer("id"))
        case "notify":
            return Notify(arguments.integer("pieces"))
        case "skip":
            return Skip(one_of(arguments, "reason", _SKIPS))
        case "skip_bytes":
            return SkipBytes(arguments.integer("length"))
        case "apology":
            return Apology()
        case "metadata":
            payload_hash = hash_of(arguments, "payload_hash", flavour)
            if payload_hash is None:
                raise ArgumentError("the argument 'payload_hash' is missing")
            return Metadata(
                arguments.flag("end_of_log", False),
                hash_of(arguments, "backlink", flavour),
                arguments.integer("payload_size"),
                payload_hash,
                arguments.octets("signature", size=SIGNATURE_SIZE),
            )
    raise ArgumentError(f"there is no data message {kind[:100]!r}")


def data_to_json(message: DataMessage) -> dict[str, Any]:
    """A data message as JSON; of payloads their heads are not messages of their own here."""
    match message:
        case Switch(id=request_id):
            return {"type": "switch", "id": request_id}
        case Cancelled(id=request_id):
            return {"type": "cancelled", "id": request_id}
        case Notify(pieces=pieces):
            return {"type": "notify", "pieces": pieces}
        case Skip(reason=reason):
            return {"type": "skip", "reason": _SKIP_NAMES[reason]}
        case SkipBytes(length=length):
            return {"type": "skip_bytes", "length": length}
        case Apology():
            return {"type": "apology"}
        case Metadata():
            fields = {
                "type": "metadata",
                "end_of_log": message.end_of_log or None,
                "backlink": message.backlink.hex() if message.backlink is not None else None,
                "payload_size": message.payload_size,
                "payload_hash": message.payload_hash.hex(),
                "signature": message.signature.hex(),
            }
            return {name: value for name, value in fields.items() if value is not None}
    raise AssertionError("heads of payloads are joined with their bytes")
