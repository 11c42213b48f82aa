"""The keys of `dag.*`, and the partition of data named by a CID.

A CID in a key is its bytes, which mark their own end. A record keyed by a CID is in the partition of that CID
alone (`cid_partition`), which producers name: all chunks of a shard are in one partition, and its index is in
the partition of the same number. A record keyed by a space or an id is in the client's default partition.
"""

from __future__ import annotations

from typing import Final

from culm_models.dag.blocks.cid import RAW, Cid, cid_from_bytes, read_cid
from culm_models.dag.errors import DagError
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX, SPACE_SIZE
from culm_topics.dag.records.shape import is_node
from culm_topics.errors import RecordError
from culm_topics.records.keys import key_partition
from culm_topics.records.shape import require

VERDICT_KEY: Final = b"verdict"
MAX_CID_BYTES: Final = 128
"""Limit of a CID in a key, in bytes: no supported hash makes a longer one."""
_OFFSET_SIZE: Final = 8
_PART_SIZE: Final = 4


def cid_partition(cid: Cid, partitions: int) -> int:
    """Return the partition of everything that this CID names."""
    return key_partition(cid.raw, partitions)


def node_key(space: bytes, cid: Cid) -> bytes:
    """Return the key of a node or a UCAN in a space."""
    _require_space("dag.nodes key", space)
    require(_is_stored(cid), "dag.nodes key", "that is no CID of a node or a UCAN")
    return space + cid.raw


def split_node_key(key: bytes | None) -> tuple[bytes, Cid]:
    """Return (space, CID). Raises `RecordError` if the key is malformed."""
    data = key or b""
    cid, end = _read_cid("dag.nodes key", data, SPACE_SIZE)
    require(end == len(data) and _is_stored(cid), "dag.nodes key", "no CID of a node or a UCAN ends it")
    return data[:SPACE_SIZE], cid


def shard_chunk_key(shard: Cid, offset: int) -> bytes:
    """Return the key of the chunk of a shard that begins at `offset`."""
    _require_shard("dag.shards key", shard)
    sound = 0 <= offset < SHARD_SIZE_MAX and offset % CHUNK_SIZE == 0
    require(sound, "dag.shards key", f"no chunk begins at {offset}")
    return shard.raw + offset.to_bytes(_OFFSET_SIZE, "big")


def split_shard_chunk_key(key: bytes | None) -> tuple[Cid, int]:
    """Return (shard, offset). Raises `RecordError` if the key is malformed."""
    shard, offset = _split_shard("dag.shards key", key, _OFFSET_SIZE)
    sound = offset < SHARD_SIZE_MAX and offset % CHUNK_SIZE == 0
    require(sound, "dag.shards key", f"no chunk begins at {offset}")
    return shard, offset


def shard_index_key(shard: Cid, part: int) -> bytes:
    """Return the key of a part of a shard's index."""
    _require_shard("dag.shard-index key", shard)
    require(0 <= part < 1 << 32, "dag.shard-index key", f"{part} is no number of a part")
    return shard.raw + part.to_bytes(_PART_SIZE, "big")


def split_shard_index_key(key: bytes | None) -> tuple[Cid, int]:
    """Return (shard, part). Raises `RecordError` if the key is malformed."""
    return _split_shard("dag.shard-index key", key, _PART_SIZE)


def blocked_key(what: Cid | bytes) -> bytes:
    """Return the key of a blocked shard's CID, or of a blocked space."""
    if isinstance(what, Cid):
        _require_shard("dag.blocked key", what)
        return what.raw
    _require_space("dag.blocked key", what)
    return what


def split_blocked_key(key: bytes | None) -> Cid | bytes:
    """Return the CID, or the space (32 bytes). Raises `RecordError` if the key is neither."""
    data = key or b""
    if len(data) == SPACE_SIZE:
        return data
    cid, end = _read_cid("dag.blocked key", data, 0)
    require(end == len(data), "dag.blocked key", "bytes follow the CID")
    return cid


def id_of_key(record: str, key: bytes | None) -> bytes:
    """Return the space or the id in the key. Raises `RecordError` if it is not 32 bytes."""
    _require_space(f"{record} key", key or b"")
    return key or b""


def cid_of_key(record: str, key: bytes | None) -> Cid:
    """Return the CID that is the whole key. Raises `RecordError`."""
    try:
        return cid_from_bytes(key or b"")
    except DagError as error:
        raise RecordError(f"{record} key: {error}") from error


def _split_shard(record: str, key: bytes | None, size: int) -> tuple[Cid, int]:
    data = key or b""
    shard, end = _read_cid(record, data, 0)
    require(end + size == len(data), record, f"{len(data) - end} bytes follow the CID where {size} belong")
    return shard, int.from_bytes(data[end:], "big")


def _read_cid(record: str, data: bytes, at: int) -> tuple[Cid, int]:
    try:
        cid, end = read_cid(data, at)
    except DagError as error:
        raise RecordError(f"{record}: {error}") from error
    _require_shard(record, cid)
    return cid, end


def _require_shard(record: str, cid: Cid) -> None:
    sound = cid.version == 1 and not cid.is_identity and SPACE_SIZE < len(cid.raw) <= MAX_CID_BYTES
    require(sound, record, f"{cid.text[:100]} is no CID that is stored by it")


def _require_space(record: str, space: bytes) -> None:
    require(len(space) == SPACE_SIZE, record, f"{len(space)} bytes where {SPACE_SIZE} belong")


def _is_stored(cid: Cid) -> bool:
    return is_node(cid) or (cid.version == 1 and cid.codec == RAW and cid.is_sha2_256)
