"""Operations on set reconciliation as published: received items join the own set (docs/conform.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from culm_models import lifts
from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_octets
from culm_models.conform.forms import HIDDEN, TEXT, Choice, Form, Forms, MemberForm, RecordForm, optional
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.reconciliation import RULES, Reconciler, ReconciliationError, Rule
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)
from culm_models.reconciliation.ordered_set import CONCAT, Monoid, SortedList

_LARGEST_SETTING: Final = 1 << 31
_CONCAT: Final = "concat"
_END: Final = ("canRespond", "upperBound")
_RULES: Final[dict[str, Rule]] = {rule: rule for rule in RULES}

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


_SIDES: Final = MachineKind[_Side]("rbsr")


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    monoid, of_triples = _monoid(arguments)
    own = SortedList((_item(value, of_triples) for value in arguments.items("items")), monoid)
    machine = Reconciler(
        own,
        rule=arguments.word("rule", _RULES, default="even"),
        threshold=arguments.integer("payload_threshold", min_value=1, max_value=_LARGEST_SETTING),
        division=arguments.integer("range_division", min_value=2, max_value=_LARGEST_SETTING),
        absorb=True,
    )
    _SIDES.put(machines, arguments, _Side(own, machine, of_triples))
    return {}


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
    side = _SIDES.get(machines, arguments)
    if side.started:
        raise ArgumentError("the conversation has begun already")
    side.started = True
    return {"send": [MESSAGES[side.of_triples].show(message) for message in side.machine.start()]}


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _SIDES.get(machines, arguments)
    message = MESSAGES[side.of_triples].read(arguments.mapping("message"), session_id=0)
    if side.error is not None:
        raise side.error
    side.started = True
    try:
        sent = side.machine.receive(message)
    except ReconciliationError as error:
        side.error = error
        raise
    side.inserted += side.machine.take_facts().shown
    return {"send": [MESSAGES[side.of_triples].show(message) for message in sent], "done": side.machine.done}


def _range(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _SIDES.get(machines, arguments)
    x, y = (_item(arguments.raw(name), side.of_triples, name) for name in ("x", "y"))
    start, end = side.own.ranks([x, y])
    item_count = len(side.own)
    size = end - start if x < y else item_count - start + end
    # A range continues from the end of the order at its beginning.
    start = start if start < item_count else 0
    (fingerprint,) = side.own.fingerprints([(start, size)])
    over = max(start + size - item_count, 0)
    items = [*side.own.items(0, over), *side.own.items(start, size - over)]
    return {"fingerprint": fingerprint, "size": size, "items": [_shown(item) for item in items]}


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    side = _SIDES.get(machines, arguments)
    return {
        "items": [_shown(item) for item in side.own.items(0, len(side.own))],
        "done": side.machine.done,
        "inserted": [_shown(item) for item in side.inserted],
    }


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


class _PayloadRecord(RecordForm[Payload]):
    """The form of a payload whose end of a range is a nested object."""

    def read(self, members: Mapping[str, Any], **fixed: Any) -> Payload:
        """Read the payload of an object."""
        end = Arguments(Arguments(dict(members)).mapping("end", default={}))
        parts = {name: end.raw(name) for name in _END} if members.get("end") is not None else {}
        return super().read({"payload": members.get("payload"), **parts}, **fixed)

    def show(self, value: Payload) -> dict[str, Any]:
        """Return the object of a payload."""
        parts = super().show(value)
        if value.upper_bound is None:
            return {"payload": parts["payload"]}
        return {"payload": parts["payload"], "end": {name: parts[name] for name in _END}}


def _messages(of_triples: bool) -> Choice:
    """Return the forms of the messages over items of one kind."""
    item = Form(lambda value, name: _item(value, of_triples, name), _shown)
    forms: Forms = {Any: item}
    members = {
        "session_id": HIDDEN,
        "can_respond": MemberForm(name="canRespond"),
        "upper_bound": MemberForm(name="upperBound"),
    }
    end = {
        **members,
        "upper_bound": MemberForm(optional(item), "upperBound"),
        "value": MemberForm(name="payload"),
    }
    return Choice(
        forms,
        members,
        emptySet=EmptySet,
        lowerBound=LowerBound,
        payload=_PayloadRecord(Payload, forms, end),
        emptyPayload=EmptyPayload,
        fingerprint=RecordForm(Fingerprint, forms, {**members, "fingerprint": MemberForm(TEXT)}),
        done=Done,
        terminal=Terminal,
    )


MESSAGES: Final = {of_triples: _messages(of_triples) for of_triples in (False, True)}
"""The messages of set reconciliation: with texts as items, and with triples."""

OPERATIONS = [
    ConformOperation(
        "rbsr.open",
        "name, items, monoid (concat or a lift), salt? (siphash128; zeros), payload_threshold, "
        "range_division, rule? (even)",
        "",
        _open,
    ),
    ConformOperation("rbsr.start", "name", "send as a list of messages", _start),
    ConformOperation("rbsr.receive", "name, message", "send as a list of messages, done", _receive),
    ConformOperation("rbsr.range", "name, x, y", "fingerprint, size, items", _range),
    ConformOperation("rbsr.state", "name", "items, done, inserted", _state),
    ConformOperation("rbsr.close", "name", "", _SIDES.close),
]
