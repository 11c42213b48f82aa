"""The report of a benchmark case, the rates that cases measure, and how reports are saved."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BenchSettings:
    """Options of a run. ``quick`` shrinks every case to a smoke run; ``results`` is the output folder.

    ``negentropy`` is the file of negentropy's JavaScript implementation, for the case that runs it.
    ``size_mb`` is the size for ``dag-transfer``, if it was given.
    """

    quick: bool
    results: Path
    negentropy: Path | None = None
    size_mb: int | None = None


@dataclass(frozen=True)
class Ratio:
    """One measured ratio: ``ours`` over ``limit``, both in ``unit``.

    ``goal`` is the ratio to reach. If ``higher_is_better`` is False, as for latencies, the goal is an upper
    bound.
    """

    case: str
    name: str
    ours: float
    limit: float
    unit: str
    limit_name: str
    goal: float | None
    higher_is_better: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Ours over the limit."""
        return self.ours / self.limit if self.limit else float("nan")

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        return self.ratio >= self.goal if self.higher_is_better else self.ratio <= self.goal


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def best_rate(action: Callable[[], int], *, repeats: int) -> float:
    """Return the best rate in items per second of ``action``, which returns the number of its items."""
    rates = []
    for _ in range(repeats):
        started = time.perf_counter()
        items = action()
        rates.append(items / (time.perf_counter() - started))
    return max(rates)


def interleaved_rates(actions: Sequence[Callable[[], int]], *, repeats: int) -> list[float]:
    """Return the median rate of each action; they alternate, so that changes in load affect all alike."""
    rates: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for index, action in enumerate(actions):
            rates[index].append(best_rate(action, repeats=1))
    return [statistics.median(series) for series in rates]


def middle_pair(ours: Sequence[float], limits: Sequence[float]) -> tuple[float, float]:
    """Return the round with the median ratio: both of its figures were measured at the same time."""
    pairs = sorted(zip(ours, limits, strict=True), key=lambda pair: pair[0] / pair[1])
    return pairs[len(pairs) // 2]


def exponent(sizes: Sequence[int], taken: Sequence[float]) -> float:
    """Return the slope of log(time) over log(size), by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(seconds) for seconds in taken]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    rise = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return rise / sum((x - middle_x) ** 2 for x in xs)


def machine() -> dict[str, Any]:
    """Describe the machine of the figures."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
        "kernel": platform.release(),
        "load_average": os.getloadavg(),
    }


def save(ratios: Sequence[Ratio], settings: BenchSettings) -> Path:
    """Write ``results.json``. Returns the folder."""
    settings.results.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(ratio), "ratio": ratio.ratio, "met": ratio.met} for ratio in ratios]
    document = {"machine": machine(), "quick": settings.quick, "ratios": rows}
    (settings.results / "results.json").write_text(json.dumps(document, indent=2) + "\n")
    return settings.results
