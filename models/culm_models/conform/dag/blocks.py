"""Operations on values and CIDs (reference 1.1, 1.2)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments
from culm_models.conform.dag.arguments import as_cids
from culm_models.conform.dag.arguments import cid_of as cid_argument
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_from_bytes, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.dag_json import from_dag_json, to_dag_json
from culm_models.dag.blocks.varint import VARINT_MAX
from culm_models.dag.errors import DagJsonMalformed


def _cbor_encode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = encode_dag_cbor(from_dag_json(arguments.value("value")))
    return {"bytes": data.hex(), "cid": cid_of(DAG_CBOR, data).text}


def _cbor_decode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = arguments.octets("bytes")
    value = decode_dag_cbor(data)
    answer = {"cid": cid_of(DAG_CBOR, data).text}
    try:
        return {"value": to_dag_json(value), **answer}
    except DagJsonMalformed:
        return answer


def _cid_parse(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    if arguments.has("bytes"):
        return _cid_to_json(cid_from_bytes(arguments.octets("bytes")))
    return _cid_to_json(cid_argument(arguments, "cid"))


def _cid_to_json(cid: Cid) -> dict[str, Any]:
    return {
        "version": cid.version,
        "codec": cid.codec,
        "multihash_code": cid.hash_code,
        "digest": cid.digest.hex(),
        "bytes": cid.raw.hex(),
        "cid": cid.text,
    }


def _cid_format(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    cid = make_cid(
        arguments.integer("version"),
        arguments.integer("codec", max_value=VARINT_MAX),
        arguments.integer("multihash_code", max_value=VARINT_MAX),
        arguments.octets("digest"),
    )
    return {"cid": cid.text}


def _cid_sort(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"cids": [cid.text for cid in sorted(as_cids(arguments.items("cids"), "cids"))]}


OPERATIONS: Final = (
    ConformOperation("cbor.encode", "value (DAG-JSON)", "bytes, cid", _cbor_encode),
    ConformOperation("cbor.decode", "bytes", "value? (unless it has a key /), cid", _cbor_decode),
    ConformOperation(
        "cid.parse", "cid, or bytes", "version, codec, multihash_code, digest, bytes, cid", _cid_parse
    ),
    ConformOperation("cid.format", "version, codec, multihash_code, digest", "cid", _cid_format),
    ConformOperation("cid.sort", "cids", "cids by text", _cid_sort),
)
