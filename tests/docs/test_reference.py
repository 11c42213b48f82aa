"""Rendered pages say what the code says, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.reference import error_codes, metrics
from docs.reference.advice import ADVICE
from docs.reference.pages import PAGES

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_what_the_code_renders(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), "run: python -m docs.reference"


@pytest.mark.parametrize("process", ["connector", "jobs"])
def test_every_exported_metric_is_in_the_reference(process: str) -> None:
    exported = re.findall(r"^culm_\w+", (FIXTURES / f"metrics-of-{process}.txt").read_text(), re.MULTILINE)
    listed = {family.name for family in metrics.families()}
    series = {f"{name}{end}" for name in listed for end in ("", "_bucket", "_sum", "_count", "_created")}
    series |= {name.removesuffix("_total") for name in listed}
    series |= {f"{name.removesuffix('_total')}_created" for name in listed}
    assert exported
    assert not set(exported) - series


def test_every_metric_has_a_unit_and_that_of_its_name() -> None:
    for family in metrics.families():
        assert family.unit, family.name
        name = family.name.removesuffix("_total")
        for unit in ("bytes", "records"):
            assert not name.endswith(f"_{unit}") or family.unit == unit


def test_every_metric_of_a_protocol_names_it() -> None:
    for family in metrics.families():
        assert family.protocol or family.section in ("connector", "job"), family.name


def test_every_code_has_a_meaning() -> None:
    known = error_codes.meanings()
    assert set((FIXTURES / "error-codes.txt").read_text().split()) <= set(known)
    assert not [code for code, meaning in known.items() if not meaning]


def test_advice_is_for_codes_that_exist() -> None:
    assert not set(ADVICE) - set(error_codes.meanings())
