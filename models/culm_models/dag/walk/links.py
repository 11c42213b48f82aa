"""Where a block links to, by its codec (R30), in the order of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_CBOR, DAG_JSON, DAG_PB, RAW, Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.blocks.dag_json import decode_dag_json
from culm_models.dag.blocks.dag_pb import decode_dag_pb
from culm_models.dag.errors import DagError


def links_of(cid: Cid, data: bytes) -> list[Cid] | None:
    """The links of a block; None where its codec is unknown or refuses the bytes."""
    read = _READERS.get(cid.codec)
    if read is None:
        return None
    try:
        return read(data)
    except DagError:
        return None


def value_links(value: Any) -> Iterator[Cid]:
    """The links in a value, in its order."""
    if isinstance(value, Cid):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from value_links(item)
    elif isinstance(value, list):
        for item in value:
            yield from value_links(item)


_READERS: Final[dict[int, Callable[[bytes], list[Cid]]]] = {
    RAW: lambda data: [],
    DAG_CBOR: lambda data: list(value_links(decode_dag_cbor(data))),
    DAG_JSON: lambda data: list(value_links(decode_dag_json(data))),
    DAG_PB: lambda data: [link.cid for link in decode_dag_pb(data).links],
}
