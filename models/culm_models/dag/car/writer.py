"""Writer of CARs: a header, and sections whose hashes are checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, check_block
from culm_models.dag.blocks.varint import write_varint
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import BlockTooLarge


def write_car(
    roots: Sequence[Cid],
    blocks: Iterable[tuple[Cid, bytes | memoryview]],
    *,
    hashes: Collection[int] = DEFAULT_HASHES,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> bytes:
    """Write a whole file. Raises `DagError` if a block does not match its CID or a limit is exceeded."""
    out = bytearray(car_header(roots, bounds=bounds))
    for sections, (cid, data) in enumerate(blocks, 1):
        check_block(cid, data, hashes)
        out += car_section(cid, data, bounds=bounds)
        if len(out) > bounds.car or sections > bounds.sections:
            raise BlockTooLarge(f"a CAR over {bounds.car} bytes or {bounds.sections} sections")
    return bytes(out)


def car_header(roots: Sequence[Cid], *, bounds: DagBounds = DEFAULT_BOUNDS) -> bytes:
    """Write the header of a file with these roots. Raises `BlockTooLarge`."""
    if len(roots) > bounds.car_roots:
        raise BlockTooLarge(f"a CAR with more than {bounds.car_roots} roots")
    header = encode_dag_cbor({"roots": list(roots), "version": 1})
    if len(header) > bounds.car_header:
        raise BlockTooLarge(f"a CAR whose header has more than {bounds.car_header} bytes")
    return write_varint(len(header)) + header


def car_section(cid: Cid, data: bytes | memoryview, *, bounds: DagBounds = DEFAULT_BOUNDS) -> bytes:
    """Write a section without checking the block against its CID. Raises `BlockTooLarge`."""
    if len(data) > bounds.block:
        raise BlockTooLarge(f"a block over {bounds.block} bytes")
    return b"".join((write_varint(len(cid.raw) + len(data)), cid.raw, data))
