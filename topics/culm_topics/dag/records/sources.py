"""What connectors bring: nodes, publishes, chunks of shards; and what a deployment blocks (reference 6, R33).

Bytes are as they were received, and stand beside the CID that they have; the readers here refuse those that
have another one. `peer` is the key of who brought it, None where it has none (a bearer's token).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import CID_START
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.records.keys import (
    id_of_key,
    split_blocked_key,
    split_node_key,
    split_shard_chunk_key,
)
from culm_topics.dag.records.shape import (
    data_item,
    dump_list,
    id_item,
    load_list,
    node_item,
    optional_id_item,
    optional_node_item,
    uint_item,
)
from culm_topics.errors import RecordError
from culm_topics.records.shape import refuse_item, require

MAX_NODE_BYTES: Final = DEFAULT_BOUNDS.node
MAX_REASON: Final = 1_000
"""Characters of the reason for which something is blocked."""

_COMMON_KEY_SIZE: Final = 32 + 36
_PEER_ITEM_SIZE: Final = 34

_NODES, _SHARDS, _PUBLISHES, _BLOCKED = "dag.nodes", "dag.shards", "dag.publishes", "dag.blocked"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Value of `dag.nodes`: an append, a join or a UCAN. Its key is the space and its CID."""

    data: bytes = field(repr=False)
    peer: bytes | None = None

    def encode(self) -> bytes:
        """`[1, bytes, peer]`."""
        data_item(_NODES, "bytes", self.data, MAX_NODE_BYTES)
        return dump_list(_NODES, self.data, optional_id_item(_NODES, "peer", self.peer))

    @staticmethod
    def decode(value: bytes | None) -> NodeRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        data, peer = load_list(value, _NODES, 2)
        return NodeRecord(
            data_item(_NODES, "bytes", data, MAX_NODE_BYTES), optional_id_item(_NODES, "peer", peer)
        )


@dataclass(frozen=True, slots=True)
class PublishRecord:
    """Value of `dag.publishes`: a publish that was received, also while it waits. Its key is its id."""

    cid: Cid
    prior: Cid | None
    data: bytes = field(repr=False)
    received_at: int
    """Seconds: the time at which its proofs are judged (R24)."""
    peer: bytes | None = None

    def encode(self) -> bytes:
        """`[1, cid, prior, bytes, received at, peer]`."""
        return dump_list(
            _PUBLISHES,
            node_item(_PUBLISHES, "cid", self.cid),
            optional_node_item(_PUBLISHES, "prior", self.prior),
            data_item(_PUBLISHES, "bytes", self.data, MAX_NODE_BYTES),
            uint_item(_PUBLISHES, "received at", self.received_at),
            optional_id_item(_PUBLISHES, "peer", self.peer),
        )

    @staticmethod
    def decode(value: bytes | None) -> PublishRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        cid, prior, data, received_at, peer = load_list(value, _PUBLISHES, 5)
        return PublishRecord(
            node_item(_PUBLISHES, "cid", cid),
            optional_node_item(_PUBLISHES, "prior", prior),
            data_item(_PUBLISHES, "bytes", data, MAX_NODE_BYTES),
            uint_item(_PUBLISHES, "received at", received_at),
            optional_id_item(_PUBLISHES, "peer", peer),
        )


@dataclass(frozen=True, slots=True)
class ShardChunkRecord:
    """Value of `dag.shards`: a chunk of a shard of `size` bytes that was verified whole.

    Its key is the shard's CID and the chunk's offset. Only the last chunk is shorter than the others (R27).
    """

    size: int
    data: bytes | memoryview = field(repr=False)
    space: bytes
    peer: bytes | None = None

    def encode(self) -> bytes:
        """`[1, size, bytes, space, peer]`."""
        self._check()
        return dump_list(
            _SHARDS,
            self.size,
            self.data,
            id_item(_SHARDS, "space", self.space),
            optional_id_item(_SHARDS, "peer", self.peer),
        )

    @staticmethod
    def decode(value: bytes | None) -> ShardChunkRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        size, data, space, peer = load_list(value, _SHARDS, 4)
        record = ShardChunkRecord(
            size=uint_item(_SHARDS, "size", size),
            data=data_item(_SHARDS, "bytes", data, CHUNK_SIZE),
            space=id_item(_SHARDS, "space", space),
            peer=optional_id_item(_SHARDS, "peer", peer),
        )
        record._check()
        return record

    def _check(self) -> None:
        require(0 < self.size <= SHARD_SIZE_MAX, _SHARDS, f"a shard has 1 to {SHARD_SIZE_MAX} bytes")
        sound = len(self.data) in (min(CHUNK_SIZE, self.size), self.size % CHUNK_SIZE)
        require(sound, _SHARDS, f"no chunk of {self.size} bytes has {len(self.data)}")


@dataclass(frozen=True, slots=True)
class BlockedRecord:
    """Value of `dag.blocked`: why a shard, or a space, is refused here, and since when (seconds)."""

    reason: str
    since: int

    def encode(self) -> bytes:
        """`[1, reason, since]`."""
        return dump_list(_BLOCKED, _reason_item(self.reason), uint_item(_BLOCKED, "since", self.since))

    @staticmethod
    def decode(value: bytes | None) -> BlockedRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        reason, since = load_list(value, _BLOCKED, 2)
        return BlockedRecord(_reason_item(reason), uint_item(_BLOCKED, "since", since))


def decode_node_record(key: bytes | None, value: bytes | None) -> tuple[bytes, Cid, NodeRecord]:
    """Space, CID and record. Raises `RecordError`, also where the bytes have another CID."""
    space, cid = split_node_key(key)
    record = NodeRecord.decode(value)
    if cid_of(cid.codec, record.data) != cid:
        raise RecordError(f"{_NODES}: the bytes are not those of {cid}, which the key names")
    return space, cid, record


def common_node_record(
    key: bytes | None, value: bytes | None
) -> tuple[bytes, bytes, bytes, bytes | None] | None:
    """Space, CID, bytes and peer of a record as nearly all are, known at sight; None says nothing.

    That is a block of DAG-CBOR of 24 to 65,535 bytes, whose hash is that of the key.
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
    """Id and record. Raises `RecordError`, also where the bytes have another CID.

    Whether the bytes say the same id and prior, the node's own reader says.
    """
    id = id_of_key(_PUBLISHES, key)
    record = PublishRecord.decode(value)
    if cid_of(DAG_CBOR, record.data) != record.cid:
        raise RecordError(f"{_PUBLISHES}: the bytes are not those of {record.cid}, which stands beside them")
    return id, record


def decode_shard_chunk(key: bytes | None, value: bytes | None) -> tuple[Cid, int, ShardChunkRecord]:
    """Shard, offset and record. Raises `RecordError`, also where no such chunk begins at that offset."""
    shard, offset = split_shard_chunk_key(key)
    record = ShardChunkRecord.decode(value)
    expected = min(CHUNK_SIZE, record.size - offset)
    if len(record.data) != expected:
        raise RecordError(
            f"{_SHARDS}: {len(record.data)} bytes at {offset} of a shard of {record.size} bytes"
        )
    return shard, offset, record


def decode_blocked(key: bytes | None, value: bytes | None) -> tuple[Cid | bytes, BlockedRecord | None]:
    """What is blocked, by its CID or as a space, and the record; None: it is blocked no more."""
    what = split_blocked_key(key)
    return what, None if value is None else BlockedRecord.decode(value)


def _reason_item(item: object) -> str:
    if type(item) is not str or len(item) > MAX_REASON:
        refuse_item(_BLOCKED, "reason", item, f"a text of at most {MAX_REASON} characters")
    return item
