"""Opening of shards as blocks (R5): CARs, and maps in DAG-CBOR. All other shards stay opaque."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, can_check
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.car import Car, read_car
from culm_models.dag.errors import BlockMissing, BlockTooLarge, DagError, ShardMalformed
from culm_models.dag.walk.reach import links_of


@dataclass(frozen=True, slots=True)
class ShardBlocks:
    """An opened shard. If a block occurs twice, the first occurrence counts."""

    roots: tuple[Cid, ...]
    blocks: dict[Cid, bytes | memoryview] = field(repr=False)

    def __contains__(self, cid: Cid) -> bool:
        return cid in self.blocks

    @property
    def cids(self) -> Iterable[Cid]:
        """The CIDs of its blocks."""
        return self.blocks

    def links(self, cid: Cid) -> Sequence[Cid] | None:
        """Return the links of a block, or None if they cannot be read. Raises `BlockMissing`."""
        block = self.blocks.get(cid)
        if block is None:
            raise BlockMissing(f"the block {cid} is not here")
        return links_of(cid, bytes(block))


@dataclass(frozen=True, slots=True)
class ShardLinks:
    """An opened shard without the bytes of its blocks, only with their links."""

    linked: dict[Cid, tuple[Cid, ...] | None] = field(repr=False)
    """Links of each block; None if they cannot be read."""

    def __contains__(self, cid: Cid) -> bool:
        return cid in self.linked

    @property
    def cids(self) -> Iterable[Cid]:
        """The CIDs of its blocks."""
        return self.linked

    def links(self, cid: Cid) -> Sequence[Cid] | None:
        """Return the links of a block, or None if they cannot be read. Raises `BlockMissing`."""
        try:
            return self.linked[cid]
        except KeyError:
            raise BlockMissing(f"the block {cid} is not here") from None


def is_opaque(cid: Cid, hashes: Collection[int] = DEFAULT_HASHES) -> bool:
    """Whether a shard with this CID cannot be opened, even if it is present."""
    return cid.codec not in (CAR, DAG_CBOR) or not can_check(cid, hashes)


def open_shard(
    cid: Cid,
    data: bytes | memoryview,
    *,
    hashes: Collection[int] = DEFAULT_HASHES,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> ShardBlocks:
    """Open a shard that is not opaque. The caller has checked that the bytes match the CID.

    Raises `DagError` if the shard is malformed.
    """
    if cid.codec == CAR:
        return _of_car(read_car(data, hashes=hashes, bounds=bounds))
    if len(data) > bounds.car:
        raise BlockTooLarge(f"a shard over {bounds.car} bytes")
    return _of_map(bytes(data), bounds)


def _of_car(car: Car) -> ShardBlocks:
    blocks: dict[Cid, bytes | memoryview] = {}
    for section in car.sections:
        blocks.setdefault(section.cid, section.data)
    return ShardBlocks(car.roots, blocks)


def _of_map(data: bytes, bounds: DagBounds) -> ShardBlocks:
    try:
        value = decode_dag_cbor(data)
    except DagError as error:
        raise ShardMalformed(f"a shard that is not canonical: {error}") from None
    if not isinstance(value, dict) or not {"blocks", "roots"} >= value.keys() >= {"blocks"}:
        raise ShardMalformed("a shard is a map of blocks and perhaps roots")
    elements, roots = value["blocks"], value.get("roots", [])
    if not isinstance(elements, list) or not isinstance(roots, list):
        raise ShardMalformed("blocks or roots is no list")
    if not all(isinstance(root, Cid) for root in roots):
        raise ShardMalformed("a root that is no link")
    if len(elements) > bounds.sections or len(roots) > bounds.car_roots:
        raise BlockTooLarge("more blocks or roots than a shard may have")
    blocks: dict[Cid, bytes | memoryview] = {}
    for element in elements:
        block = encode_dag_cbor(element)
        if len(block) > bounds.block:
            raise BlockTooLarge(f"a block over {bounds.block} bytes")
        blocks.setdefault(cid_of(DAG_CBOR, block), block)
    return ShardBlocks(tuple(roots), blocks)


def open_with_places(
    cid: Cid,
    data: bytes,
    *,
    hashes: Collection[int] = DEFAULT_HASHES,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> tuple[ShardBlocks, Iterable[tuple[Cid, int, int]]]:
    """Open a shard like `open_shard`. Also returns each block's CID, offset and length, including repeats."""
    if cid.codec != CAR:
        return open_shard(cid, data, hashes=hashes, bounds=bounds), _places_in_map(data)
    car = read_car(data, hashes=hashes, bounds=bounds)
    return _of_car(car), [(section.cid, section.offset, len(section.data)) for section in car.sections]


def block_places(
    cid: Cid,
    data: bytes,
    *,
    hashes: Collection[int] = DEFAULT_HASHES,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> Iterator[tuple[Cid, int, int]]:
    """Yield the CID, offset and length of each block of a shard that is not opaque, including repeats."""
    yield from open_with_places(cid, data, hashes=hashes, bounds=bounds)[1]


def _places_in_map(data: bytes) -> Iterator[tuple[Cid, int, int]]:
    # The elements are the last bytes of the map, without gaps between them.
    blocks = [encode_dag_cbor(element) for element in decode_dag_cbor(data)["blocks"]]
    at = len(data) - sum(map(len, blocks))
    for block in blocks:
        yield cid_of(DAG_CBOR, block), at, len(block)
        at += len(block)
