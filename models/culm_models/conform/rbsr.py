"""Operations on set reconciliation as published: received items join the own set (docs/conform.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from culm_models import lifts
from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_mapping, as_octets
from culm_models.conform.operation import Machines, Operation
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.reconciliation import RULES, Reconciler, ReconciliationError, Rule
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)
from culm_models.reconciliation.sorted_list import CONCAT, Monoid, SortedList

_KIND = "rbsr"
_LARGEST_SETTING = 1 << 31
_CONCAT = "concat"

Item: TypeAlias = Any
"""A text, or a tuple of public key (64 hex digits), log id and sequence number."""


@dataclass(slots=True)
class _Side:
    """One side of a conversation."""

    own: SortedList[Item, str]
    machine: Reconciler[Item, str]
    of_triples: bool
    started: bool = False
    error: ReconciliationError | None = None
    inserted: list[Item] = field(default_factory=list)


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    name = arguments.text("name")
    monoid, of_triples = _monoid(arguments)
    own = SortedList((_item(value, of_triples) for value in arguments.items("items")), monoid)
    machine = Reconciler(
        own,
        rule=_rule(arguments),
        threshold=arguments.integer("payload_threshold", least=1, most=_LARGEST_SETTING),
        division=arguments.integer("range_division", least=2, most=_LARGEST_SETTING),
        absorb=True,
    )
    machines.put(_KIND, name, _Side(own, machine, of_triples))
    return {}


def _rule(arguments: Arguments) -> Rule:
    wanted = arguments.text("rule") if arguments.has("rule") else "even"
    for rule in RULES:
        if rule == wanted:
            return rule
    raise ArgumentError(f"rule is not one of {', '.join(RULES)}")


def _monoid(arguments: Arguments) -> tuple[Monoid[Item, str], bool]:
    name = arguments.text("monoid")
    if name == _CONCAT:
        return CONCAT, False
    lift = next((lift for lift in lifts.LIFTS if lift.name == name), None)
    if lift is None:
        names = ", ".join(lift.name for lift in lifts.LIFTS)
        raise ArgumentError(f"monoid is not {_CONCAT} and not one of {names}")
    salt = bytes(lift.salt_bytes)
    if lift.salt_bytes and arguments.has("salt"):
        salt = arguments.octets("salt", size=lift.salt_bytes)

    def lanes(item: tuple[str, int, int]) -> lifts.Lanes:
        return lift.lanes((bytes.fromhex(item[0]), *item[1:]), salt)

    return Monoid(lanes, lambda many: lift.value(lift.total(many)).hex()), True


def _start(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _side(machines, arguments)
    if side.started:
        raise ArgumentError("the conversation has begun already")
    side.started = True
    return {"send": [to_json(message) for message in side.machine.start()]}


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _side(machines, arguments)
    message = from_json(as_mapping(arguments.raw("message"), "message"), side.of_triples)
    if side.error is not None:
        raise side.error
    side.started = True
    try:
        sent = side.machine.receive(message)
    except ReconciliationError as error:
        side.error = error
        raise
    side.inserted += side.machine.take_facts().shown
    return {"send": [to_json(message) for message in sent], "done": side.machine.done}


def _range(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _side(machines, arguments)
    x, y = (_item(arguments.raw(name), side.of_triples, name) for name in ("x", "y"))
    start, end = side.own.ranks([x, y])
    held = len(side.own)
    size = end - start if x < y else held - start + end
    # From the end of the order a range goes on at its beginning.
    start = start if start < held else 0
    (fingerprint,) = side.own.fingerprints([(start, size)])
    over = max(start + size - held, 0)
    items = [*side.own.items(0, over), *side.own.items(start, size - over)]
    return {"fingerprint": fingerprint, "size": size, "items": [_shown(item) for item in items]}


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _side(machines, arguments)
    return {
        "items": [_shown(item) for item in side.own.items(0, len(side.own))],
        "done": side.machine.done,
        "inserted": [_shown(item) for item in side.inserted],
    }


def _close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machines.close(_KIND, arguments.text("name"))
    return {}


def _side(machines: Machines, arguments: Arguments) -> _Side:
    side: _Side = machines.get(_KIND, arguments.text("name"))
    return side


def _item(value: Any, of_triples: bool, name: str = "an item") -> Item:
    if not of_triples:
        if not isinstance(value, str):
            raise ArgumentError(f"{name} is not a string")
        return value
    if not isinstance(value, list) or len(value) != 3:
        raise ArgumentError(f"{name} is [public_key, log_id, seq_num]")
    public_key, log_id, seq_num = value
    return (
        as_octets(public_key, "public_key", size=PUBLIC_KEY_SIZE).hex(),
        as_integer(log_id, "log_id"),
        as_integer(seq_num, "seq_num"),
    )


def _shown(item: Item) -> Any:
    return list(item) if isinstance(item, tuple) else item


def to_json(message: ReconciliationMessage) -> dict[str, Any]:
    """A message as an object; what it does not carry is left out."""
    match message:
        case EmptySet():
            return {"type": "emptySet", "canRespond": message.can_respond}
        case LowerBound():
            return {"type": "lowerBound", "value": _shown(message.value)}
        case Payload():
            shown = {"type": "payload", "payload": _shown(message.value)}
            if message.upper_bound is not None:
                end = {"canRespond": message.can_respond, "upperBound": _shown(message.upper_bound)}
                shown["end"] = end
            return shown
        case EmptyPayload():
            return {"type": "emptyPayload", "upperBound": _shown(message.upper_bound)}
        case Fingerprint():
            return {
                "type": "fingerprint",
                "fingerprint": message.fingerprint,
                "upperBound": _shown(message.upper_bound),
            }
        case Done():
            return {"type": "done", "upperBound": _shown(message.upper_bound)}
    assert isinstance(message, Terminal)
    return {"type": "terminal"}


def from_json(value: dict[str, Any], of_triples: bool) -> ReconciliationMessage:
    """An object as a message; items and bounds are texts, or triples."""
    fields = Arguments(value)

    def item(name: str, of: Arguments = fields) -> Item:
        return _item(of.raw(name), of_triples, name)

    def flag(name: str, of: Arguments = fields) -> bool:
        of.raw(name)
        return of.flag(name, False)

    match fields.text("type"):
        case "emptySet":
            return EmptySet(0, flag("canRespond"))
        case "lowerBound":
            return LowerBound(0, item("value"))
        case "payload":
            if not fields.has("end"):
                return Payload(0, item("payload"))
            end = Arguments(fields.mapping("end"))
            return Payload(0, item("payload"), flag("canRespond", end), item("upperBound", end))
        case "emptyPayload":
            return EmptyPayload(0, item("upperBound"))
        case "fingerprint":
            return Fingerprint(0, fields.text("fingerprint"), item("upperBound"))
        case "done":
            return Done(0, item("upperBound"))
        case "terminal":
            return Terminal(0)
        case kind:
            raise ArgumentError(f"there is no message type {kind[:100]!r} here")


OPERATIONS = [
    Operation(
        "rbsr.open",
        "name, items, monoid (concat or a lift), salt? (siphash128; zeros), payload_threshold, "
        "range_division, rule? (even)",
        "",
        _open,
    ),
    Operation("rbsr.start", "name", "send as a list of messages", _start),
    Operation("rbsr.receive", "name, message", "send as a list of messages, done", _receive),
    Operation("rbsr.range", "name, x, y", "fingerprint, size, items", _range),
    Operation("rbsr.state", "name", "items, done, inserted", _state),
    Operation("rbsr.close", "name", "", _close),
]
