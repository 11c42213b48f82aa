"""Operations on the total order (reference 5)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments
from culm_models.conform.dag.arguments import as_cid, cid_of, optional_cid
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.order.total_order import OrderChange, TotalOrder

_ORDERS: Final = MachineKind[TotalOrder]("dag.order")
_STATE: Final = "heads, order, tip, key, held"


def order_to_json(order: TotalOrder) -> dict[str, Any]:
    """Return the state of an order as JSON."""
    tip = order.tip
    return {
        "heads": [cid.text for cid in order.heads()],
        "order": [cid.text for cid in order.order()],
        "tip": None if tip is None else tip.text,
        "key": [cid.text for cid in order.tip_key()],
    }


def change_to_json(order: TotalOrder, change: OrderChange) -> dict[str, Any]:
    """Return the effect of an operation as JSON."""
    tip = order.tip
    return {"tip": None if tip is None else tip.text, "from": change.start, "changed": change.changed}


def _of(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    order = TotalOrder()
    for pair in arguments.items("ops"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise ArgumentError("an operation is not [cid, prior or null]")
        cid = as_cid(pair[0], "cid")
        _take(order, cid, None if pair[1] is None else as_cid(pair[1], "prior"))
    return _state_of(order)


def _take(order: TotalOrder, cid: Cid, prior: Cid | None) -> OrderChange:
    if order.priors.get(cid, prior) != prior:
        raise ArgumentError(f"{cid} came with another prior before")
    return order.add(cid, prior)


def _state_of(order: TotalOrder) -> dict[str, Any]:
    return {**order_to_json(order), "held": [cid.text for cid in order.held()]}


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    _ORDERS.put(machines, arguments, TotalOrder())
    return {}


def _add(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    order = _ORDERS.get(machines, arguments)
    change = _take(order, cid_of(arguments, "cid"), optional_cid(arguments, "prior"))
    return {**change_to_json(order, change), "held": [cid.text for cid in order.held()]}


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return _state_of(_ORDERS.get(machines, arguments))


OPERATIONS: Final = (
    ConformOperation("order.of", "ops ([[cid, prior or null]])", _STATE, _of),
    ConformOperation("order.open", "name", "", _open),
    ConformOperation("order.add", "name, cid, prior?", "tip, from, changed, held", _add),
    ConformOperation("order.state", "name", _STATE, _state),
)
