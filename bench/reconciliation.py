"""Set reconciliation of n logs per side, d of them differing: time, bytes and batches, beside negentropy."""

from __future__ import annotations

import gc
import json
import math
import statistics
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bench import negentropy, reconciliation_plot
from bench.harness import BenchSettings, Ratio, machine, say
from bench.negentropy import Figures
from bench.reconciliation_ends import WAYS, Point, Run, Way, reconcile
from bench.reconciliation_sets import SHAPES

_CASE = "rbsr"
_SIZES = (10_000, 100_000, 1_000_000)
_DIFFERING = (0, 1, 10, 100, 1_000, 10_000, 100_000)
_GOAL_SIZE, _GOAL_DIFFERING = 1_000_000, 1_000
_MAX_SHARE_OF_SIZE = 0.1
_ROUNDS = 3
_NEGENTROPY_ROUNDS = 3
_FEW, _MANY = 10, 10_000
# Shapes on which negentropy is run, too. To it, `grown` has another number of differences, and it has no
# notion of authors.
_BESIDE = frozenset(("uniform", "tail"))
_BATCHES_MAX: dict[Way, int] = {"default": 11, "latency": 6}


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure all shapes, sizes and differences; negentropy on the largest sets, alternating with ours."""
    sizes = _SIZES[:1] if settings.quick else _SIZES
    file = negentropy.implementation(settings)
    if file is None:
        say("  negentropy is not here: its figures are from another machine")
    points: list[Point] = []
    theirs: dict[tuple[str, int], Figures] = {}
    for size in sizes:
        for shape in SHAPES:
            for differing in _DIFFERING:
                max_differing = (
                    size * _MAX_SHARE_OF_SIZE if shape == "uniform" else min(size * _MAX_SHARE_OF_SIZE, _MANY)
                )
                # Without differences all shapes are equal.
                if differing > max_differing or (differing == 0 and shape != "uniform"):
                    continue
                beside = size == sizes[-1] and shape in _BESIDE
                measured, figures = _measured(shape, size, differing, file, beside=beside)
                points += measured
                if figures is not None:
                    theirs[shape, differing] = figures
                _print(measured, figures)
    settings.results.mkdir(parents=True, exist_ok=True)
    _save(points, theirs, settings.results / "reconciliation.json")
    reconciliation_plot.draw(points, theirs, settings.results / "reconciliation.png")
    growth = _growth(points, sizes)
    goal_size, differing = (sizes[-1], 100) if settings.quick else (_GOAL_SIZE, _GOAL_DIFFERING)
    return _against_negentropy(points, theirs, goal_size, differing) + growth


def _rounds(differing: int) -> int:
    return _ROUNDS * 10 if differing <= _FEW else _ROUNDS if differing <= _MANY else 1


def _measured(
    shape: str, size: int, differing: int, file: Path | None, *, beside: bool
) -> tuple[list[Point], Figures | None]:
    """Measure ours in every way; ``beside``: with negentropy in between, so that load changes affect both."""
    pair = SHAPES[shape](size, differing)
    a, b = pair.side(pair.on_a), pair.side(pair.on_b)
    runs: dict[Way, list[Run]] = {way: [] for way in WAYS}

    def ours() -> None:
        for way, done in runs.items():
            if differing <= _MANY:
                # Warm-up.
                reconcile(pair, a, b, way)
            # As a connector process does once it has started.
            gc.collect()
            gc.freeze()
            done += [reconcile(pair, a, b, way) for _ in range(_rounds(differing))]

    ours()
    figures: Figures | None = None
    if beside and file is None:
        figures = negentropy.published(shape, size, differing)
    elif beside and file is not None:
        figures = negentropy.measured(file, pair, rounds=_NEGENTROPY_ROUNDS)
        ours()
    return [_point(shape, size, differing, way, done) for way, done in runs.items()], figures


def _point(shape: str, size: int, differing: int, way: Way, runs: list[Run]) -> Point:
    seconds = statistics.median(run.seconds for run in runs)
    cpu_seconds = statistics.median(run.cpu_seconds for run in runs)
    last = runs[-1]
    figures = (seconds, cpu_seconds, last.bytes, last.batches, last.messages)
    return Point(shape, size, differing, way, *figures)


def _against_negentropy(
    points: list[Point], theirs: dict[tuple[str, int], Figures], size: int, differing: int
) -> list[Ratio]:
    def ours(shape: str, count: int, way: Way) -> Point:
        asked = (shape, size, count, way)
        (point,) = (p for p in points if (p.shape, p.size, p.differing, p.way) == asked)
        return point

    ratios = []
    for way, max_batches in _BATCHES_MAX.items():
        batches = ours("uniform", differing, way).batches
        ratios.append(_ratio(f"batches, uniform, {way}", batches, max_batches, "batches", "at most", 1.0))
    uniform, tail, same = (
        theirs.get(key) for key in (("uniform", differing), ("tail", differing), ("uniform", 0))
    )
    if uniform is None or tail is None or same is None:
        return ratios
    beside = "negentropy, measured elsewhere" if uniform.published else "negentropy"
    point = ours("uniform", differing, "default")
    milliseconds = point.seconds * 1e3
    ratios.append(_ratio("time, uniform", milliseconds, uniform.warm_ms, "ms", beside, 0.1, figures=uniform))
    if not uniform.published:
        cpu = point.cpu_seconds * 1e3
        ratios.append(_ratio("processor time, uniform", cpu, uniform.warm_cpu_ms, "ms", beside, None))
        ratios.append(_ratio("time, uniform", milliseconds, uniform.first_ms, "ms", f"{beside}, cold", None))
    nothing = ours("uniform", 0, "default").seconds * 1e3
    ratios.append(_ratio("time, nothing differs", nothing, same.warm_ms, "ms", beside, 0.01, figures=same))
    goals: tuple[tuple[str, Way, float, Figures], ...] = (
        ("uniform", "default", 1.6, uniform),
        ("uniform", "latency", 2.4, uniform),
        ("uniform", "compact", 0.85, uniform),
        ("ten logs an author", "compact", 0.85, uniform),
        ("tail", "compact", 2.0, tail),
        ("tail", "default", 2.0, tail),
    )
    for shape, way, goal, figures in goals:
        each = ours(shape, differing, way).bytes_per_difference
        limit = figures.bytes / differing
        ratios.append(_ratio(f"bytes, {shape}, {way}", each, limit, "B a difference", beside, goal))
    return ratios


def _growth(points: list[Point], sizes: tuple[int, ...]) -> list[Ratio]:
    """Fit exponents by least squares: log seconds over log d, and log bytes over log d."""
    ratios = []
    size = sizes[-1]
    for shape in SHAPES:
        line = [
            p for p in points if (p.shape, p.size, p.way) == (shape, size, "default") and p.differing >= 10
        ]
        for what, values in (
            ("processor time", [p.cpu_seconds for p in line]),
            ("bytes", [float(p.bytes) for p in line]),
        ):
            exponent = _slope([p.differing for p in line], values)
            name = f"exponent of {what} in d, {shape}"
            ratios.append(_ratio(name, exponent, 1.0, "exponent", "linear", 1.05))
    same = {p.size: p for p in points if p.differing == 0 and p.way == "default"}
    if len(same) > 1:
        first, last = same[sizes[0]], same[size]
        grown, limit = last.cpu_seconds / first.cpu_seconds, math.log(size) / math.log(sizes[0])
        name = f"processor time, nothing differs, {size:,} over {sizes[0]:,}"
        ratios.append(_ratio(name, grown, limit, "times", "the logarithm's", 1.0))
    return ratios


def _slope(xs: list[int], ys: list[float]) -> float:
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def _ratio(
    name: str,
    ours: float,
    limit: float,
    unit: str,
    limit_name: str,
    goal: float | None,
    figures: Figures | None = None,
) -> Ratio:
    details = {} if figures is None else {"negentropy": asdict(figures)}
    return Ratio(_CASE, name, ours, limit, unit, limit_name, goal, higher_is_better=False, details=details)


def _print(points: list[Point], figures: Figures | None) -> None:
    shape, size, differing = points[0].shape, points[0].size, points[0].differing
    text = "; ".join(
        f"{p.way} {p.seconds * 1e3:,.1f} ms, {p.bytes_per_difference:,.0f} B, {p.batches} batches"
        for p in points
    )
    if figures is not None:
        each = figures.bytes / max(differing, 1)
        text += f"; negentropy {figures.warm_ms:,.0f} ms ({figures.first_ms:,.0f} cold), {each:,.0f} B"
    say(f"  {shape}, n {size:,}, d {differing:,}: {text}")


def _save(points: list[Point], theirs: dict[tuple[str, int], Figures], path: Path) -> None:
    document = {
        "machine": machine(),
        "ours": [asdict(point) for point in points],
        "negentropy": [
            {"shape": shape, "differing": differing, **asdict(figures)}
            for (shape, differing), figures in theirs.items()
        ],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
