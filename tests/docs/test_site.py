"""The site of the documentation: no broken link, no page outside the navigation, nothing fetched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_builds_strictly(site: Path) -> None:
    pages = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")} - {Path("404.md")}
    assert pages >= {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?(https?:)?//[^\"> ]*", re.IGNORECASE
    )
    for path in site.rglob("*.html"):
        assert not loaded.search(path.read_text(encoding="utf-8")), path.name
