"""Reading and writing CARs with every hash checked, against sha2-256 alone over the same blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from bench.dag_material import raw_blocks
from bench.dag_npm import asked, libraries
from bench.harness import BenchSettings, Ratio, best_rate, middle_pair
from culm_models.dag.blocks.cid import RAW, cid_of
from culm_models.dag.car import CarStream, read_car, write_car
from culm_models.dag.wire.messages import CHUNK_SIZE

# Size of a shard that a put cuts by default.
_SHARD_SIZE = 4_194_304
_GOALS = {1_024: 0.3, 65_536: 0.9}


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure one shard of raw blocks; the cases alternate, and the middle round counts."""
    rounds = 3 if settings.quick else 15
    folder = libraries()
    ratios: list[Ratio] = []
    for size, goal in _GOALS.items():
        blocks = raw_blocks(size, _SHARD_SIZE // size // (8 if settings.quick else 1))
        named = [(cid_of(RAW, block), block) for block in blocks]
        shard = write_car([], named)
        megabytes = len(shard) / 1e6
        actions: dict[str, Callable[[], object]] = {
            "read": partial(read_car, shard),
            "read in chunks": partial(_streamed, shard),
            "written": partial(write_car, [], named),
            "limit": partial(_hashed, blocks),
        }
        rates: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(rounds):
            for name, action in actions.items():
                rates[name].append(megabytes * best_rate(partial(_done, action), repeats=1))
        details: dict[str, float] = {}
        if folder is not None:
            theirs = asked(folder, "car", size=size, blocks=len(blocks))
            details["javascript_read_and_hashed"] = theirs["megabytes"]
        for name in ("read", "read in chunks", "written"):
            ours, limit = middle_pair(rates[name], rates["limit"])
            ratios.append(
                Ratio(
                    "dag-car",
                    f"blocks of {size // 1024} KiB, {name}",
                    ours,
                    limit,
                    "MB/s",
                    "sha2-256 of each block",
                    goal if name == "read" else None,
                    details=details,
                )
            )
    return ratios


def _done(action: Callable[[], object]) -> int:
    action()
    return 1


def _hashed(blocks: list[bytes]) -> list[bytes]:
    return [hashlib.sha256(block).digest() for block in blocks]


def _streamed(shard: bytes) -> None:
    stream = CarStream()
    for at in range(0, len(shard), CHUNK_SIZE):
        stream.feed(shard[at : at + CHUNK_SIZE])
    stream.finish()
