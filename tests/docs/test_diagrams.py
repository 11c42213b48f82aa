"""The diagrams and terminals of the documentation are drawn from the text beside them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from docs.diagrams.render import DiagramError, drawings, read_diagram
from docs.screens import render as screens

DOCS = Path(__file__).parents[2] / "docs"
DRAWINGS = drawings()
SCREENS = screens.drawings()


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_diagram_is_what_its_text_draws(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == DRAWINGS[path], "run: make diagrams"


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_diagram_is_well_formed_fetches_nothing_and_says_what_it_shows(path: Path) -> None:
    svg = DRAWINGS[path]
    root = ET.fromstring(svg)
    assert len((root.findtext("{http://www.w3.org/2000/svg}desc") or "").split()) >= 20
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]
    assert "<image" not in svg and "@font-face" not in svg


@pytest.mark.parametrize("path", SCREENS, ids=lambda path: path.stem)
def test_a_terminal_is_what_its_text_draws_and_fetches_nothing(path: Path) -> None:
    svg = path.read_text(encoding="utf-8")
    assert svg == SCREENS[path], "run: make diagrams"
    assert ET.fromstring(svg).findtext("{http://www.w3.org/2000/svg}title")
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_every_drawing_has_a_text_and_is_shown_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md")))
    for path in (*(DOCS / "diagrams").glob("*.svg"), *(DOCS / "screens").glob("*.svg")):
        assert path in DRAWINGS or path in SCREENS
        assert f"{path.parent.name}/{path.name})" in pages


def test_text_that_does_not_fit_its_box_is_refused(tmp_path: Path) -> None:
    description = tmp_path / "narrow.toml"
    description.write_text(
        'title = "t"\nmeaning = "m"\nsize = [100, 100]\n[boxes]\n'
        'a = { kind = "edge", at = [0, 0], size = [30, 30], text = "connector" }\n',
        encoding="utf-8",
    )
    with pytest.raises(DiagramError, match="too narrow"):
        read_diagram(description)
