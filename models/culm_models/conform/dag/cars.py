"""Operations on CARs (reference 1.3)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments
from culm_models.conform.dag.arguments import as_cids, block_to_json, blocks_of
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import CAR, cid_of
from culm_models.dag.car import read_car, write_car


def _encode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = write_car(as_cids(arguments.items("roots"), "roots"), blocks_of(arguments, "blocks"))
    return {"bytes": data.hex(), "cid": cid_of(CAR, data).text}


def _decode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = arguments.octets("bytes")
    car = read_car(data)
    return {
        "roots": [root.text for root in car.roots],
        "blocks": [block_to_json(section.cid, section.data) for section in car.sections],
        "cid": cid_of(CAR, data).text,
    }


OPERATIONS: Final = (
    ConformOperation("car.encode", "roots, blocks ([{cid, bytes}])", "bytes, cid", _encode),
    ConformOperation("car.decode", "bytes", "roots, blocks (in file order), cid", _decode),
)
