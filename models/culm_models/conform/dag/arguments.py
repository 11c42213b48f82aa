"""Common arguments of operations on DAG replication; an invalid one is answered with ``conform.request``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments, RequestError, as_mapping, as_octets
from culm_models.conform.forms import Form
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import Cid, cid_from_text
from culm_models.dag.blocks.multihash import check_block


def with_request_errors(operation: ConformOperation) -> ConformOperation:
    """Return an operation whose invalid arguments are answered with ``conform.request``."""

    def run(machines: Machines, arguments: Arguments) -> dict[str, Any]:
        try:
            return operation.run(machines, arguments)
        except (ArgumentError, UnicodeEncodeError) as error:
            raise RequestError(str(error)) from None

    return replace(operation, run=run)


def as_cid(value: Any, name: str) -> Cid:
    """Return ``value`` as a CID in text form."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} is not a string")
    return cid_from_text(value)


CID: Final = Form(as_cid, lambda cid: cid.text)


def as_cids(values: list[Any], name: str) -> list[Cid]:
    """Return a list of CIDs."""
    return [as_cid(value, f"a CID of {name}") for value in values]


def cid_of(arguments: Arguments, name: str) -> Cid:
    """Return a CID."""
    return as_cid(arguments.raw(name), name)


def optional_cid(arguments: Arguments, name: str) -> Cid | None:
    """Return a CID, or None if left out."""
    return cid_of(arguments, name) if arguments.has(name) else None


def blocks_of(arguments: Arguments, name: str, default: list[Any] | None = None) -> list[tuple[Cid, bytes]]:
    """Return a list of ``{cid, bytes}``, each checked against its CID."""
    return [as_block(item, name) for item in arguments.items(name, default)]


def as_block(value: Any, name: str, *, checked: bool = True) -> tuple[Cid, bytes]:
    """Return ``value`` as ``{cid, bytes}``; ``checked`` against its CID."""
    block = as_mapping(value, f"an item of {name}")
    cid, data = as_cid(block.get("cid"), "cid"), as_octets(block.get("bytes"), "bytes")
    if checked:
        check_block(cid, data)
    return cid, data


def texts(cids: Any) -> list[str]:
    """Return CIDs as texts, sorted as texts."""
    return sorted(cid.text for cid in cids)


def block_to_json(cid: Cid, data: bytes | memoryview) -> dict[str, str]:
    """Return a block as ``{cid, bytes}``."""
    return {"cid": cid.text, "bytes": data.hex()}
