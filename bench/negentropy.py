"""negentropy's JavaScript implementation beside ours: run on the same sets, or published figures.

The implementation (MIT, github.com/hoytech/negentropy, `js/Negentropy.js`) is not part of this repository: it
is the file that `--negentropy` or CULM_NEGENTROPY names, or negentropy/Negentropy.js in the user's cache.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from bench.harness import BenchSettings
from bench.reconciliation_sets import Pair

VARIABLE = "CULM_NEGENTROPY"
_DRIVER = Path(__file__).with_name("negentropy.cjs")
_HEAP_MB = 6_144


@dataclass(frozen=True)
class Figures:
    """One reconciliation by negentropy. `first_ms` is the first run in its process: the engine is cold."""

    first_ms: float
    warm_ms: float
    warm_cpu_ms: float
    bytes: int
    round_trips: int
    published: bool = False


# One run each on another machine (two cores, 2.5 GHz, node 20), n = 1,000,000: ms, bytes, round trips.
_PUBLISHED_SIZE = 1_000_000
_PUBLISHED: dict[tuple[str, int], Figures] = {
    (shape, differing): Figures(ms, ms, ms, size, trips, published=True)
    for shape, differing, ms, size, trips in (
        ("uniform", 0, 1_600, 338, 1),
        ("uniform", 1, 1_300, 2_257, 3),
        ("uniform", 10, 1_700, 18_588, 3),
        ("uniform", 100, 2_700, 165_295, 3),
        ("uniform", 1_000, 5_100, 1_343_000, 3),
        ("uniform", 10_000, 11_000, 10_390_000, 3),
        ("uniform", 100_000, 19_000, 49_400_000, 3),
        ("tail", 1_000, 1_600, 34_000, 4),
        ("tail", 10_000, 1_300, 322_000, 3),
    )
}


def published(shape: str, size: int, differing: int) -> Figures | None:
    """Return the published figures for such sets; None if there are none."""
    return _PUBLISHED.get((shape, differing)) if size == _PUBLISHED_SIZE else None


def implementation(settings: BenchSettings) -> Path | None:
    """Return the path of the implementation; None if it or node is missing."""
    if shutil.which("node") is None:
        return None
    named = settings.negentropy or os.environ.get(VARIABLE)
    if named:
        return Path(named).resolve(strict=True)
    cached = platformdirs.user_cache_path("culm") / "negentropy" / "Negentropy.js"
    return cached if cached.exists() else None


def measured(file: Path, pair: Pair, *, rounds: int) -> Figures:
    """Run the implementation on these sets: once to warm up, then `rounds` times."""
    with tempfile.TemporaryDirectory(prefix="culm-bench-") as folder:
        side_a, side_b = pair.write_for_negentropy(Path(folder))
        request = json.dumps({"a": str(side_a), "b": str(side_b), "rounds": 1 + rounds})
        command = ["node", f"--max-old-space-size={_HEAP_MB}", str(_DRIVER), str(file)]
        done = subprocess.run(command, input=request + "\n", capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    differences = answer["have"] + answer["need"]
    expected = int((pair.on_a != pair.on_b).sum())
    assert differences == expected, f"negentropy found {differences} differences of {expected}"
    first, *warm = answer["sync_ms"]
    cpu_ms = statistics.median(answer["cpu_ms"][1:])
    return Figures(first, statistics.median(warm), cpu_ms, answer["bytes"], answer["round_trips"])
