"""Operations on the publish machine (reference 3.3, 4.5, 5.4)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments
from culm_models.conform.dag.arguments import cid_of
from culm_models.conform.dag.orders import order_to_json
from culm_models.conform.dag.replicas import refusals_to_json
from culm_models.conform.dag.ucans import now_of, settings_of
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.dag.publish.machine import PublishMachine, Reordered
from culm_models.dag.publish.states import PublishState
from culm_models.dag.replica.codec import ID_SIZE

_PUBLISHES: Final = MachineKind[PublishMachine]("dag.publish")


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machine = PublishMachine(settings_of(arguments))
    _PUBLISHES.put(machines, arguments, machine)
    return {}


def _add(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machine = _PUBLISHES.get(machines, arguments)
    taken = machine.add(cid_of(arguments, "cid"), arguments.octets("bytes"), now_of(arguments))
    answer: dict[str, Any] = {"kind": taken.kind}
    if taken.is_admitted is not None:
        answer["admission"] = "admitted" if taken.is_admitted else "waiting"
    if taken.kind != "shard":
        answer["missing"] = [cid.text for cid in taken.missing]
    answer["orders"] = {id.hex(): _reordered_to_json(reordered) for id, reordered in taken.orders.items()}
    return answer


def _reordered_to_json(reordered: Reordered) -> dict[str, Any]:
    shown: dict[str, Any] = {"tip": reordered.tip.text, "from": reordered.start, "changed": reordered.changed}
    if reordered.superseded is not None:
        shown["superseded"] = reordered.superseded.text
    return shown


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machine, id = _PUBLISHES.get(machines, arguments), _id(arguments)
    states = machine.states(id)
    complete = [cid for cid, state in states.items() if state is PublishState.COMPLETE]
    latest: dict[str, str] | None = None
    if complete:
        change = machine.publish(complete[-1])
        latest = {"cid": complete[-1].text, "link": change.link.text, "origin": change.origin.text}
        if change.shard is not None:
            latest["shard"] = change.shard.text
    return {
        **order_to_json(machine.order(id)),
        "states": {cid.text: state.value for cid, state in states.items()},
        "waiting": [cid.text for cid in machine.waiting(id)],
        "refused": refusals_to_json(machine.refused),
        "latest": latest,
    }


def _next(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    tip = _PUBLISHES.get(machines, arguments).order(_id(arguments)).tip
    return {"prior": None if tip is None else tip.text}


def _id(arguments: Arguments) -> bytes:
    return arguments.octets("publish_id", size=ID_SIZE)


OPERATIONS: Final = (
    ConformOperation(
        "publish.open", "name, policy? (bound or bearer; bound), legacy?, services?, leeway?", "", _open
    ),
    ConformOperation(
        "publish.add",
        "name, cid, bytes, now (seconds)",
        "kind, admission? (admitted or waiting), missing?, orders ({publish_id: {tip, from, changed,"
        " superseded?}})",
        _add,
    ),
    ConformOperation(
        "publish.state",
        "name, publish_id",
        "heads, order, tip, key, states, waiting, refused, latest ({cid, link, origin, shard?} or null)",
        _state,
    ),
    ConformOperation("publish.next", "name, publish_id", "prior", _next),
)
