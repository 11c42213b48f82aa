"""Plots of set reconciliation: time and bytes per difference over the number of differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.negentropy import Figures
from bench.reconciliation_ends import Point

_COLOURS = ("#9db8c9", "#4d86a8", "#17405c")
_STYLES = {"default": "-", "latency": ":", "compact": "--"}


def draw(points: Sequence[Point], theirs: Mapping[tuple[str, int], Figures], path: Path) -> None:
    """Draw a row for each shape: seconds on the left, bytes per difference on the right, both over d."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shapes = list(dict.fromkeys(point.shape for point in points))
    sizes = sorted({point.size for point in points})
    figure, rows = pyplot.subplots(len(shapes), 2, figsize=(11, 3.4 * len(shapes)), squeeze=False)
    for shape, (times, sizes_axis) in zip(shapes, rows, strict=True):
        for size, colour in zip(sizes, _COLOURS, strict=False):
            for way, style in _STYLES.items():
                line = [p for p in points if (p.shape, p.size, p.way) == (shape, size, way) and p.differing]
                at = [p.differing for p in line]
                label = f"n {size:,}, {way}"
                times.plot(at, [p.seconds for p in line], style, color=colour, label=label)
                sizes_axis.plot(at, [p.bytes_per_difference for p in line], style, color=colour)
        known = sorted((d, f) for (name, d), f in theirs.items() if name == shape and d)
        if known:
            at = [d for d, _ in known]
            label = f"negentropy, n {sizes[-1]:,}"
            times.plot(at, [f.warm_ms / 1e3 for _, f in known], "o-", color="#b5472f", label=label)
            sizes_axis.plot(at, [f.bytes / d for d, f in known], "o-", color="#b5472f")
        times.set_ylabel(f"{shape}: seconds, both ends")
        sizes_axis.set_ylabel("bytes a difference, both ways")
        for axis in (times, sizes_axis):
            axis.set(xscale="log", yscale="log", xlabel="logs that differ")
            axis.spines[["top", "right"]].set_visible(False)
    rows[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
