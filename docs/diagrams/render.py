"""Draws the diagrams of the documentation.

`make diagrams` writes one SVG beside each TOML file of this folder. A description lists boxes by place and
size, in pixels, and arrows between their sides. The drawing needs no font, no network and no program beside
Python. Colours follow the reader's light or dark mode. The background is drawn, too, so that a page in the
other mode can show it.
"""

from __future__ import annotations

import itertools
import re
import sys
import tomllib
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent

FONT_PX: Final = 14
SMALL_PX: Final = 12
MEAN_GLYPH: Final = {FONT_PX: 0.59, SMALL_PX: 0.53}
"""Width of a character in units of the font's size, for bold titles and for small text."""

_LIGHT: Final = {
    "paper": "#ffffff", "frame": "#d5dbe1", "ink": "#1d2731", "soft": "#55636f", "arrow": "#5b6b79",
    "peer": "#e3f1fd", "peer-line": "#2f7fc1", "edge": "#e0f3ee", "edge-line": "#1f8a70",
    "topic": "#fdf0da", "topic-line": "#c07d14", "job": "#f2e8fb", "job-line": "#8250c4",
    "program": "#fde7ea", "program-line": "#c2465d", "store": "#eef1f4", "store-line": "#71808e",
}  # fmt: skip
_DARK: Final = {
    "paper": "#1a2027", "frame": "#3a4550", "ink": "#e8edf2", "soft": "#a9b6c2", "arrow": "#93a2b0",
    "peer": "#1c3348", "peer-line": "#6db3ee", "edge": "#173a33", "edge-line": "#4cc3a5",
    "topic": "#43331a", "topic-line": "#e3a94b", "job": "#352649", "job-line": "#b795ea",
    "program": "#46232b", "program-line": "#ee8a9c", "store": "#2a323a", "store-line": "#93a2b0",
}  # fmt: skip
KINDS: Final = ("peer", "edge", "topic", "job", "program", "store")


class DiagramError(Exception):
    """A description that cannot be drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with its lines of text; `group` is a dashed frame around others, `note` is text alone."""

    id: str
    kind: str
    at: tuple[int, int]
    size: tuple[int, int]
    text: str
    small: str = ""

    def side(self, name: str, shift: int) -> tuple[int, int]:
        """Middle of a side, moved along it by this many pixels."""
        (x, y), (width, height) = self.at, self.size
        points = {
            "left": (x, y + height // 2 + shift),
            "right": (x + width, y + height // 2 + shift),
            "top": (x + width // 2 + shift, y),
            "bottom": (x + width // 2 + shift, y + height),
        }
        if name not in points:
            raise DiagramError(f"{self.id}: no side {name!r}")
        return points[name]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line between two sides; `start` and `end` are like `connector.right` or `connector.right+20`."""

    start: str
    end: str
    text: str = ""
    both: bool = False
    dashed: bool = False
    bend: int | None = None
    label: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Diagram:
    """A description: its title and meaning in words, for readers who do not see it, and its parts."""

    title: str
    meaning: str
    size: tuple[int, int]
    boxes: dict[str, Box]
    arrows: list[Arrow] = field(default_factory=list)


def read_diagram(path: Path) -> Diagram:
    """Parse a description. Raises `DiagramError` if a kind does not exist or text does not fit its box."""
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    boxes = {}
    for id_, values in data["boxes"].items():
        box = Box(id_, **{**values, "at": tuple(values["at"]), "size": tuple(values["size"])})
        if box.kind not in (*KINDS, "group", "note"):
            raise DiagramError(f"{path.name}: {id_} is of no known kind: {box.kind!r}")
        lines = [*((line, FONT_PX) for line in box.text.splitlines())]
        lines += [(line, SMALL_PX) for line in box.small.splitlines()]
        for line, px in lines:
            if box.kind != "note" and len(line) * px * MEAN_GLYPH[px] > box.size[0] - (
                24 if box.kind == "topic" else 4
            ):
                raise DiagramError(f"{path.name}: {id_} is too narrow for {line!r}")
        boxes[id_] = box
    arrows = []
    for values in data.get("arrows", []):
        label = values.pop("label", None)
        arrows.append(Arrow(**values, label=tuple(label) if label else None))
    width, height = data["size"]
    return Diagram(data["title"], data["meaning"].strip(), (width, height), boxes, arrows)


def draw(diagram: Diagram) -> str:
    """Return the drawing as SVG."""
    width, height = diagram.size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-labelledby="title meaning">',
        f'<title id="title">{escape(diagram.title)}</title>',
        f'<desc id="meaning">{escape(diagram.meaning)}</desc>',
        _style(),
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        ' orient="auto-start-reverse"><path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>',
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
    ]
    groups_first = sorted(diagram.boxes.values(), key=lambda box: box.kind != "group")
    parts += [_box(box) for box in groups_first if box.kind != "note"]
    drawn = [_arrow(arrow, diagram) for arrow in diagram.arrows]
    parts += [line for line, _label in drawn] + [label for _line, label in drawn if label]
    parts += [_box(box) for box in groups_first if box.kind == "note"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _style() -> str:
    return (
        "<style>text{font-family:system-ui,-apple-system,'Segoe UI','Noto Sans','DejaVu Sans',sans-serif;"
        f"font-size:{FONT_PX}px;text-anchor:middle}}.small{{font-size:{SMALL_PX}px}}.head{{font-weight:600}}"
        ".label{paint-order:stroke;stroke-width:5px;stroke-linejoin:round}"
        ".group,.line{fill:none}.group{stroke-dasharray:5 4}"
        ".line{stroke-width:1.6}.dashed{stroke-dasharray:6 4}"
        ".peer,.edge,.topic,.job,.program,.store{stroke-width:1.4}"
        f"{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}</style>"
    )


def _rules(colours: dict[str, str]) -> str:
    """Rules without variables, because some viewers of SVG do not know these."""
    rules = "".join(f".{kind}{{fill:{colours[kind]};stroke:{colours[f'{kind}-line']}}}" for kind in KINDS)
    return (
        f"text{{fill:{colours['ink']}}}.small{{fill:{colours['soft']}}}.label{{stroke:{colours['paper']}}}"
        f".paper{{fill:{colours['paper']};stroke:{colours['frame']}}}.group{{stroke:{colours['soft']}}}"
        f".line{{stroke:{colours['arrow']}}}.tip{{fill:{colours['arrow']}}}{rules}"
    )


def _box(box: Box) -> str:
    (x, y), (width, height) = box.at, box.size
    if box.kind == "group":
        return (
            f'<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
            f'<text class="small head" x="{x + 12}" y="{y + 19}" style="text-anchor:start">'
            f"{escape(box.text)}</text>"
        )
    shape = ""
    if box.kind == "topic":  # a pipe that lies on its side: records enter on the left
        shape = (
            f'<path class="topic" d="M{x + 8} {y}H{x + width - 8}a8 {height / 2:g} 0 0 1 0 {height}H{x + 8}'
            f'a8 {height / 2:g} 0 0 1 0 -{height}a8 {height / 2:g} 0 0 1 0 {height}"/>'
        )
    elif box.kind != "note":
        radius = height / 2 if box.kind == "peer" and height <= 44 else 7
        place = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius:g}"'
        shape = f'<rect class="{box.kind}" {place}/>'
    lines = [("head", line, 18) for line in box.text.splitlines()]
    lines += [("small", line, 16) for line in box.small.splitlines()]
    middle = x + width / 2 + (6 if box.kind == "topic" else 0)
    down = y + (height - sum(step for _, _, step in lines)) / 2
    text = ""
    for name, line, step in lines:
        down += step
        text += f'<text class="{name}" x="{middle:g}" y="{down - 4.5:g}">{escape(line)}</text>'
    return shape + text


def _end(text: str, diagram: Diagram) -> tuple[tuple[int, int], str]:
    match = re.fullmatch(r"([\w-]+)\.(left|right|top|bottom)([+-]\d+)?", text)
    if not match or match[1] not in diagram.boxes:
        raise DiagramError(f"an arrow ends at no side of a box: {text!r}")
    return diagram.boxes[match[1]].side(match[2], int(match[3] or 0)), match[2]


def _arrow(arrow: Arrow, diagram: Diagram) -> tuple[str, str]:
    ((x1, y1), side1), ((x2, y2), side2) = _end(arrow.start, diagram), _end(arrow.end, diagram)
    flat1, flat2 = side1 in ("left", "right"), side2 in ("left", "right")
    if flat1 and flat2:
        bend = (x1 + x2) // 2 if arrow.bend is None else arrow.bend
        points = [(x1, y1), (bend, y1), (bend, y2), (x2, y2)]
    elif not flat1 and not flat2:
        bend = (y1 + y2) // 2 if arrow.bend is None else arrow.bend
        points = [(x1, y1), (x1, bend), (x2, bend), (x2, y2)]
    else:
        points = [(x1, y1), (x2, y1) if flat1 else (x1, y2), (x2, y2)]
    if y1 == y2 or x1 == x2:
        points = [points[0], points[-1]] if arrow.bend is None else points
    path = "M" + "L".join(f"{x} {y}" for x, y in points)
    ends = ' marker-end="url(#tip)"' + (' marker-start="url(#tip)"' if arrow.both else "")
    line = f'<path class="line{" dashed" if arrow.dashed else ""}" d="{path}"{ends}/>'
    if not arrow.text:
        return line, ""
    if arrow.label:
        x, y = arrow.label
    else:
        (xa, ya), (xb, yb) = max(itertools.pairwise(points), key=_length)
        x, y = (xa + xb) // 2, (ya + yb) // 2 - (7 if ya == yb else -4)
    rows = arrow.text.splitlines()
    label = "".join(
        f'<text class="small label" x="{x}" y="{y - 15 * (len(rows) - 1 - row)}">{escape(text)}</text>'
        for row, text in enumerate(rows)
    )
    return line, label


def _length(piece: tuple[tuple[int, int], tuple[int, int]]) -> int:
    (xa, ya), (xb, yb) = piece
    return abs(xa - xb) + abs(ya - yb)


def drawings() -> dict[Path, str]:
    """Return the drawing of each description in this folder, by the path of its SVG."""
    return {path.with_suffix(".svg"): draw(read_diagram(path)) for path in sorted(FOLDER.glob("*.toml"))}


if __name__ == "__main__":
    for target, svg in drawings().items():
        target.write_text(svg, encoding="utf-8")
        print(target.relative_to(FOLDER.parent.parent), file=sys.stderr)
