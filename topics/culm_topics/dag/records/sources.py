"""Records of connectors (nodes, publishes, chunks of shards) and the block list (reference 6, R33).

Bytes are as they were received, beside their CID; the readers here refuse bytes with another CID. `peer` is
the sender's key, or None if it has none (a bearer's token).
"""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256
from typing import Annotated, Final

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import CID_START
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX, SPACE_SIZE
from culm_topics.dag.records.keys import id_of_key, split_blocked_key, split_node_key, split_shard_chunk_key
from culm_topics.dag.records.shape import DAG_LIST, NodeBytes, NodeLink
from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import PeerId
from culm_topics.records.kinds import between, called, kind_of, sized, sized_between, where
from culm_topics.records.shape import require

MAX_REASON: Final = 1_000
"""Limit of the reason for a block, in characters."""

_COMMON_KEY_SIZE: Final = 32 + 36
_PEER_ITEM_SIZE: Final = 34

_NODES, _SHARDS, _PUBLISHES, _BLOCKED = "dag.nodes", "dag.shards", "dag.publishes", "dag.blocked"


@record(
    _NODES, "an append, a join or a UCAN. Key: space (32 bytes), then the CID of the bytes.", codec=DAG_LIST
)
class NodeRecord(Record):
    """Value of `dag.nodes`: an append, a join or a UCAN. Its key is the space and its CID."""

    data: NodeBytes = field(repr=False)
    peer: Annotated[PeerId | None, "the peer that sent it"] = None


@record(_PUBLISHES, "a publish, possibly waiting for others. Key: its id (32 bytes).", codec=DAG_LIST)
class PublishRecord(Record):
    """Value of `dag.publishes`: a received publish, also while it waits. Its key is its id."""

    cid: Annotated[NodeLink, "of the bytes"]
    prior: NodeLink | None
    data: NodeBytes = field(repr=False)
    received_at: Annotated[int, "seconds; the time at which its proofs are validated"]
    peer: Annotated[PeerId | None, "the peer that sent it"] = None


@record(
    _SHARDS,
    "one chunk of a completely verified shard. Key: the shard's CID, offset (u64).",
    codec=DAG_LIST,
)
class ShardChunkRecord(Record):
    """Value of `dag.shards`: a chunk of a shard of `size` bytes that was verified whole.

    Its key is the shard's CID and the chunk's offset. Only the last chunk is shorter than the others (R27).
    """

    size: Annotated[int, between(1, SHARD_SIZE_MAX), "of the whole shard"]
    data: Annotated[
        bytes | memoryview,
        kind_of(bytes),
        sized_between(1, CHUNK_SIZE),
        called("bytes"),
        f"from the offset on {CHUNK_SIZE:,} bytes, or what is left",
    ] = field(repr=False)
    space: Annotated[bytes, sized(SPACE_SIZE)]
    peer: Annotated[PeerId | None, "the peer that sent it"] = None

    def verify(self) -> None:
        """Raise `RecordError` if a shard of this size has no chunk of this length."""
        sound = len(self.data) in (min(CHUNK_SIZE, self.size), self.size % CHUNK_SIZE)
        require(sound, _SHARDS, f"no chunk of {self.size} bytes has {len(self.data)}")


@record(
    _BLOCKED,
    "a blocked shard or space. Key: the shard's CID, or the space (32 bytes). No value: no longer blocked.",
    codec=DAG_LIST,
)
class BlockedRecord(Record):
    """Value of `dag.blocked`: why a shard, or a space, is refused here, and since when (seconds)."""

    reason: Annotated[
        str,
        where(f"len({{x}}) <= {MAX_REASON}", f"a text of at most {MAX_REASON} characters"),
        f"at most {MAX_REASON:,} characters",
    ]
    since: Annotated[int, "seconds"]


def decode_node_record(key: bytes | None, value: bytes | None) -> tuple[bytes, Cid, NodeRecord]:
    """Return space, CID and record. Raises `RecordError`, also if the bytes have another CID."""
    space, cid = split_node_key(key)
    record = NodeRecord.decode(value)
    if cid_of(cid.codec, record.data) != cid:
        raise RecordError(f"{_NODES}: the bytes are not those of {cid}, which the key names")
    return space, cid, record


def common_node_record(
    key: bytes | None, value: bytes | None
) -> tuple[bytes, bytes, bytes, bytes | None] | None:
    """Return space, CID, bytes and peer of a record in the usual form; None if it has another form.

    The usual form is a block of DAG-CBOR of 24 to 65,535 bytes whose hash is in the key. This path is fast.
    """
    if key is None or value is None or len(key) != _COMMON_KEY_SIZE or value[:2] != b"\x83\x01":
        return None
    head = value[2:5]
    if head[:1] == b"\x58" and head[1:2] >= b"\x18":
        start, end = 4, 4 + head[1]
    elif head[:1] == b"\x59" and head[1:2] > b"\x00" and len(head) == 3:
        start, end = 5, 5 + (head[1] << 8 | head[2])
    else:
        return None
    data, rest = value[start:end], value[end:]
    peer = rest[2:] if len(rest) == _PEER_ITEM_SIZE and rest.startswith(b"\x58\x20") else None
    if (peer is None and rest != b"\xf6") or key[32:] != CID_START + sha256(data).digest():
        return None
    return key[:32], key[32:], data, peer


def decode_publish_record(key: bytes | None, value: bytes | None) -> tuple[bytes, PublishRecord]:
    """Return id and record. Raises `RecordError`, also if the bytes have another CID.

    The node's own reader checks that the bytes contain the same id and prior.
    """
    id = id_of_key(_PUBLISHES, key)
    record = PublishRecord.decode(value)
    if cid_of(DAG_CBOR, record.data) != record.cid:
        raise RecordError(f"{_PUBLISHES}: the bytes are not those of {record.cid}, which stands beside them")
    return id, record


def decode_shard_chunk(key: bytes | None, value: bytes | None) -> tuple[Cid, int, ShardChunkRecord]:
    """Return shard, offset and record. Raises `RecordError`, also if no such chunk begins at that offset."""
    shard, offset = split_shard_chunk_key(key)
    record = ShardChunkRecord.decode(value)
    expected = min(CHUNK_SIZE, record.size - offset)
    if len(record.data) != expected:
        raise RecordError(
            f"{_SHARDS}: {len(record.data)} bytes at {offset} of a shard of {record.size} bytes"
        )
    return shard, offset, record


def decode_blocked(key: bytes | None, value: bytes | None) -> tuple[Cid | bytes, BlockedRecord | None]:
    """Return the blocked CID or space, and the record; None if it is not blocked any more."""
    what = split_blocked_key(key)
    return what, None if value is None else BlockedRecord.decode(value)
