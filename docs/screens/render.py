"""Draws docs/screens/*.svg: terminals with the output of commands, from the recorded text beside them.

A text file has the lines of a terminal, with its colours as escape sequences; a line that begins with ``$ ``
is typed. ``make diagrams`` draws them. The drawings load no font and nothing else.
"""

from __future__ import annotations

import io
import sys
from html import escape
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

FOLDER: Final = Path(__file__).parent
_COLUMNS: Final = 100
_FORMAT: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#22272e" width="100%" height="100%" rx="8"/>
<g transform="translate({terminal_x}, 12)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def drawings() -> dict[Path, str]:
    """Return the drawing of every recorded text, by the path of the drawing."""
    return {path.with_suffix(".svg"): _drawn(path) for path in sorted(FOLDER.glob("*.txt"))}


def _drawn(path: Path) -> str:
    console = Console(
        record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    for line in lines:
        if line.startswith("$ "):
            console.print(Text.assemble(("$ ", "green"), (line[2:], "bold")), soft_wrap=True)
        else:
            console.print(Text.from_ansi(line), soft_wrap=True)
    commands = ", ".join(line[2:] for line in lines if line.startswith("$ "))
    return console.export_svg(
        code_format=_FORMAT.replace("TITLE", f"Terminal: {escape(commands)}"), unique_id=f"screen-{path.stem}"
    )


def main() -> None:
    """Write every drawing, and print its path."""
    for path, drawing in drawings().items():
        path.write_text(drawing, encoding="utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
