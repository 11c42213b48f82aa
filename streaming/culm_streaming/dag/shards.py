"""The first stage: turns chunks into whole shards, their index and the links of their blocks.

A shard is held while the newest record of each of its chunks has a value. Bytes are stored until all chunks
are there; then only the content read from them, until the last chunk is gone. So the result for chunks that
come and go follows the topic, whatever the batches (R33).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import cbor2

from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_models.dag.blocks.multihash import check_block
from culm_models.dag.errors import DagError
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.reach import links_of
from culm_models.dag.walk.shard_blocks import is_opaque, open_with_places
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_streaming.dag.packing import refuse
from culm_streaming.dag.rows import ChunkRow, ChunkRows, Ready, ReplicaRows, ShardRow
from culm_streaming.dag.state import CHUNKS, FORMAT, SHARDS_KNOWN
from culm_streaming.stateful.job_state import JobState, check_format
from culm_topics.dag.records import BlockPlace, shard_index

INDEX_TOPIC: Final = "dag.shard-index"

Links = tuple[tuple[bytes, tuple[bytes, ...] | None], ...]


@dataclass(slots=True)
class _Shard:
    """The state of a shard: `held` offsets of its chunks; `links` once it was whole, `index` its records."""

    size: int
    held: set[int]
    links: Links | None = None
    index: tuple[tuple[bytes, bytes], ...] = ()
    is_refused: bool = False
    is_here: bool = False
    """Whether the second stage knows the shard as held."""

    @property
    def is_whole(self) -> bool:
        return len(self.held) == -(-self.size // CHUNK_SIZE)


def shards_step(store: JobState, rows: ChunkRows, settings: ValidationRules) -> ReplicaRows:
    """Process chunks of one place, in the order of partitions; returns rows for the second stage."""
    out = ReplicaRows()
    in_order = sorted(rows.chunks, key=lambda row: (row.shard, row.partition, row.position))
    for raw, group in groupby(in_order, key=lambda row: row.shard):
        chunks = list(group)
        _take(store, cid_from_bytes(raw), chunks, settings, out)
    return out


def _take(
    store: JobState, cid: Cid, rows: list[ChunkRow], settings: ValidationRules, out: ReplicaRows
) -> None:
    blob = store.load(SHARDS_KNOWN, cid.raw)
    shard = None if blob is None else _decode(blob)
    was_here, index = (shard.is_here, shard.index) if shard is not None else (False, ())
    went = False
    # Bytes of this batch: most shards are whole within one batch and are never stored in the state.
    fresh: dict[int, bytes] = {}
    for row in rows:
        if row.data is None:
            if shard is not None and row.offset in shard.held:
                shard.held.discard(row.offset)
                went = True
                if fresh.pop(row.offset, None) is None:
                    store.save(CHUNKS, (cid.raw, row.offset), None)
        else:
            if shard is None or (shard.size != row.size and not shard.held):
                shard = _Shard(row.size, set())
            if shard.size != row.size:
                error = DagError(f"a chunk of {row.size} bytes in all, of a shard of {shard.size}")
                refuse(out, cid, error, source=None)
                continue
            if row.offset not in shard.held and shard.links is None and not shard.is_refused:
                fresh[row.offset] = row.data
            shard.held.add(row.offset)
        if shard is not None and shard.is_whole and shard.links is None and not shard.is_refused:
            _open(store, cid, shard, fresh, settings, out)
            fresh.clear()
    if shard is None:
        return
    for offset, data in fresh.items():
        store.save(CHUNKS, (cid.raw, offset), data)
    shard.is_here = shard.is_whole and shard.links is not None
    partition = rows[-1].partition
    if shard.is_here and not was_here:
        assert shard.links is not None
        out.shards.append(ShardRow(cid.raw, shard.links))
    if shard.is_here and (went or not was_here):
        # The program that drops a shard removes its index itself: if the shard came back at once, the index
        # is written again.
        out.ready += [(INDEX_TOPIC, key, value, partition) for key, value in shard.index]
    elif was_here and not shard.is_here:
        out.shards.append(ShardRow(cid.raw, None))
        out.ready += _gone(index, partition)
    store.save(SHARDS_KNOWN, cid.raw, _encode(shard) if shard.held else None)


def _gone(index: Collection[tuple[bytes, bytes]], partition: int) -> list[Ready]:
    return [(INDEX_TOPIC, key, None, partition) for key, _ in index]


def _open(
    store: JobState,
    cid: Cid,
    shard: _Shard,
    fresh: Mapping[int, bytes],
    settings: ValidationRules,
    out: ReplicaRows,
) -> None:
    """Read a shard whose chunks are all there for the first time. Their bytes are not needed any more."""
    offsets = sorted(shard.held)
    data = b"".join(fresh.get(offset) or store.load(CHUNKS, (cid.raw, offset)) or b"" for offset in offsets)
    for offset in offsets:
        if offset not in fresh:
            store.save(CHUNKS, (cid.raw, offset), None)
    try:
        shard.links, shard.index = read_shard(cid, data, settings)
    except DagError as error:
        # Connectors verify what they produce: only a program that writes to the topic itself gets here.
        shard.is_refused = True
        refuse(out, cid, error)


def read_shard(
    cid: Cid, data: bytes, settings: ValidationRules
) -> tuple[Links, tuple[tuple[bytes, bytes], ...]]:
    """Return a whole shard's links of blocks, and its index as keys and values. Raises `DagError`."""
    if is_opaque(cid, settings.hashes):
        records = shard_index(cid, len(data), (), ())
        return (), tuple((key, record.encode()) for key, record in records)
    check_block(cid, data, settings.hashes)
    opened, places = open_with_places(cid, data, hashes=settings.hashes, bounds=settings.bounds)
    records = shard_index(cid, len(data), opened.roots, (BlockPlace(*location) for location in places))
    links: list[tuple[bytes, tuple[bytes, ...] | None]] = []
    for block, content in opened.blocks.items():
        named = links_of(block, bytes(content))
        links.append((block.raw, None if named is None else tuple(link.raw for link in named)))
    return tuple(links), tuple((key, record.encode()) for key, record in records)


def _encode(shard: _Shard) -> bytes:
    items: Any = (
        FORMAT,
        shard.size,
        sorted(shard.held),
        shard.links,
        shard.index,
        shard.is_refused,
        shard.is_here,
    )
    return cbor2.dumps(items)


def _decode(blob: bytes) -> _Shard:
    form, size, offsets, links, index, is_refused, is_here = cbor2.loads(blob)
    check_format("a shard of the job dag", form, FORMAT)
    return _Shard(
        size,
        set(offsets),
        None
        if links is None
        else tuple((cid, None if named is None else tuple(named)) for cid, named in links),
        tuple((key, value) for key, value in index),
        is_refused,
        is_here,
    )
