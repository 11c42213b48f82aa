"""Turns records of the `dag.*` sources into rows: the job's stateless part.

Form, key, CID and signature are checked here, by as many tasks as there are partitions. A record without a
value for a node, a UCAN or a publish changes nothing: they stay (R33).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import NodeSchema
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_models.errors import CulmError
from culm_streaming.dag.contents import (
    PUBLISH,
    REFUSED_NODE,
    VerifiedUcans,
    common_content,
    published_id,
    read_content,
)
from culm_streaming.dag.rows import (
    BlockedRow,
    ChunkRow,
    ChunkRows,
    NodeRow,
    PublishRow,
    ReplicaRows,
)
from culm_streaming.dag.settings import DagLayout
from culm_topics.dag.records import (
    common_node_record,
    dag_rejection,
    decode_blocked,
    decode_node_record,
    decode_publish_record,
    decode_shard_chunk,
    split_shard_chunk_key,
)

Record = tuple[bytes | None, bytes | None, int, int]
"""(key, value, partition, offset)."""

SHARDS, REPLICAS = 0, 1
"""The stages: chunks to shards, and all other rows."""
PLACE: Final = 0
"""The one place of the second stage."""

REJECTED: Final = "rejected"
_PACKED_BYTES: Final = 4 * 1_048_576

Packed = tuple[int, int, bytes]
"""(place, stage, rows)."""

_VERIFIED: Final = VerifiedUcans()
"""Cache of this worker."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Parameters for packing the records of a topic. `name`: the topic's full name in the deployment."""

    layout: DagLayout
    verdict: ValidationRules
    name: str


def place_of_shard(shard: bytes, layout: DagLayout) -> int:
    """Return the place of a shard of a DAG in the first stage, by the bytes of its CID."""
    return crc32(shard) % layout.shards


def pack_nodes(records: Iterable[Record], packing: Packing) -> Iterator[Packed]:
    """Pack `dag.nodes`: rows of nodes and UCANs; publishes belong in another topic."""
    rows = ReplicaRows()
    for key, value, partition, offset in records:
        if value is None:
            continue
        source = (packing.name, partition, offset)
        common = common_node_record(key, value)
        if common is not None and (content := common_content(common[2], packing.verdict)) is not None:
            rows.nodes.append(NodeRow(common[0], common[1], content, common[2], common[3], source))
            continue
        cid: Cid | None = None
        peer: bytes | None = None
        try:
            space, cid, record = decode_node_record(key, value)
            peer = record.peer
            content = read_content(cid, record.data, packing.verdict, _VERIFIED)
            broken = content[0] == REFUSED_NODE and published_id(record.data) is not None
            if content[0] == PUBLISH or broken:
                raise NodeSchema("a publish in dag.nodes")
            rows.nodes.append(NodeRow(space, cid.raw, content, record.data, peer, source))
        except CulmError as error:
            refuse(rows, cid, error, data=value, peer=peer, source=source)
    if rows:
        yield PLACE, REPLICAS, rows.pack()


def pack_publishes(records: Iterable[Record], packing: Packing) -> Iterator[Packed]:
    """Pack `dag.publishes`: rows of publishes, each with its time of receipt."""
    rows = ReplicaRows()
    for key, value, partition, offset in records:
        if value is None:
            continue
        source = (packing.name, partition, offset)
        try:
            id, record = decode_publish_record(key, value)
            cid, data = record.cid, record.data
            content = read_content(cid, data, packing.verdict, _VERIFIED, record.received_at)
            named_id = content[2][0] if content[0] == PUBLISH else published_id(data)
            if named_id != id:
                raise NodeSchema("dag.publishes has publishes alone, each under its id")
            rows.publishes.append(
                PublishRow(id, cid.raw, content, record.received_at, data, record.peer, source)
            )
        except CulmError as error:
            refuse(rows, None, error, data=value, source=source)
    if rows:
        yield PLACE, REPLICAS, rows.pack()


def pack_blocked(records: Iterable[Record], packing: Packing) -> Iterator[Packed]:
    """Pack `dag.blocked`: CIDs and spaces that are blocked, or no longer blocked."""
    rows = ReplicaRows()
    for key, value, partition, offset in records:
        try:
            what, record = decode_blocked(key, value)
            raw = what.raw if isinstance(what, Cid) else what
            rows.blocked.append(BlockedRow(raw, record is not None, offset))
        except CulmError as error:
            refuse(rows, None, error, data=value, source=(packing.name, partition, offset))
    if rows:
        yield PLACE, REPLICAS, rows.pack()


def pack_shards(records: Iterable[Record], packing: Packing) -> Iterator[Packed]:
    """Pack `dag.shards`: rows of chunks by the place of their shard, some MiB at a time."""
    rows: dict[int, ChunkRows] = {}
    refused = ReplicaRows()
    size = 0
    for key, value, partition, offset in records:
        try:
            if value is None:
                shard, start = split_shard_chunk_key(key)
                row = ChunkRow(shard.raw, start, 0, None, partition, offset)
            else:
                shard, start, record = decode_shard_chunk(key, value)
                row = ChunkRow(shard.raw, start, record.size, bytes(record.data), partition, offset)
        except CulmError as error:
            refuse(refused, None, error, source=(packing.name, partition, offset))
            continue
        rows.setdefault(place_of_shard(row.shard, packing.layout), ChunkRows()).chunks.append(row)
        size += len(value or b"")
        if size >= _PACKED_BYTES:
            yield from _packed(rows)
            rows, size = {}, 0
    yield from _packed(rows)
    if refused:
        yield PLACE, REPLICAS, refused.pack()


def _packed(rows: dict[int, ChunkRows]) -> Iterator[Packed]:
    for shard_number, chunk_rows in rows.items():
        yield shard_number, SHARDS, chunk_rows.pack()


def refuse(
    rows: ReplicaRows,
    cid: Cid | None,
    error: CulmError,
    *,
    data: bytes | None = None,
    peer: bytes | None = None,
    source: Sequence[Any] | None = None,
) -> None:
    """Add a record of `rejected` for a malformed record or node; bytes larger than a chunk are left out."""
    kept_data = data if data is not None and len(data) <= CHUNK_SIZE else None
    position = (source[0], source[1], source[2]) if source else None
    key, record = dag_rejection(cid, error.code, str(error), data=kept_data, peer=peer, source=position)
    rows.ready.append((REJECTED, key, record.encode(), None))
