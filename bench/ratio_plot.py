"""Plot of the ratios of a run: throughputs above, where more is better, latencies and sizes below.

``python -m bench.ratio_plot RESULTS PLOT`` draws a `results.json` that was written earlier.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.harness import Ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = {True: "#2b7a4b", False: "#b5472f", None: "#5b6670"}
_INCHES_PER_ROW: Final = 0.34
_ROOM_FOR_TEXT: Final = 1.9
"""Width of the axis over that of the longest bar: the figures stand behind the bars."""


def draw(ratios: Sequence[Ratio], path: Path) -> None:
    """Draw the ratios to an SVG file: a bar for each, with a mark at its goal."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    parts = [
        ([ratio for ratio in ratios if ratio.higher_is_better], "ratio to the limit; more is better"),
        ([ratio for ratio in ratios if not ratio.higher_is_better], "ratio to the limit; less is better"),
    ]
    parts = [(rows, label) for rows, label in parts if rows]
    heights = [len(rows) + 2 for rows, _ in parts]
    # Text stays text, no font is embedded, and the same figures give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "culm", "font.size": 9}):
        figure, axes = pyplot.subplots(
            len(parts),
            1,
            squeeze=False,
            figsize=(11, _INCHES_PER_ROW * sum(heights)),
            height_ratios=heights,
            layout="constrained",
        )
        for (rows, label), (axis,) in zip(parts, axes, strict=True):
            _draw_rows(axis, rows)
            axis.set_xlabel(f"{label}; the black mark is the goal")
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _draw_rows(axis: Axes, ratios: Sequence[Ratio]) -> None:
    for row, ratio in enumerate(reversed(ratios)):
        axis.barh(row, ratio.ratio, color=_COLOURS[ratio.met], height=0.6)
        if ratio.goal is not None:
            axis.plot([ratio.goal, ratio.goal], [row - 0.4, row + 0.4], color="black", linewidth=2)
        end = max(ratio.ratio, ratio.goal or 0.0)
        text = f"{ratio.ratio:.2f} × {ratio.limit_name}"
        axis.annotate(text, (end, row), xytext=(6, 0), textcoords="offset points", va="center")
    axis.set_yticks(range(len(ratios)), [f"{ratio.case}: {ratio.name}" for ratio in reversed(ratios)])
    axis.set_xlim(0, _ROOM_FOR_TEXT * max(max(ratio.ratio, ratio.goal or 0.0) for ratio in ratios))
    axis.margins(y=0.02)
    axis.spines[["top", "right"]].set_visible(False)


def main(arguments: Sequence[str]) -> int:
    """Draw earlier results. Returns the exit status."""
    results, plot = map(Path, arguments)
    names = {field.name for field in fields(Ratio)}
    rows = json.loads(results.read_text())["ratios"]
    draw([Ratio(**{name: value for name, value in row.items() if name in names}) for row in rows], plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
