"""The tutorials work from start to end, pasted as they are, each on an own stack in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tutorial import run

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
LIMIT_S = 420


def tutorial(name: str, folder: Path) -> None:
    (folder / "work").mkdir()
    run(TUTORIALS / f"{name}.md", folder / "work", folder, LIMIT_S)


def test_the_tutorial_of_protocol_implementers(tmp_path: Path) -> None:
    tutorial("protocol-implementer", tmp_path)


@pytest.mark.kafka
@pytest.mark.timeout(LIMIT_S + 60)
def test_the_tutorial_of_edge_operators(tmp_path: Path) -> None:
    tutorial("edge-operator", tmp_path)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("name", ["job-operator", "consumer"])
def test_the_tutorials_that_run_a_job(name: str, tmp_path: Path) -> None:
    tutorial(name, tmp_path)


def test_every_tutorial_is_run_and_is_short() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in TUTORIALS.glob("*.md")}
    assert set(pages) == {"protocol-implementer", "edge-operator", "job-operator", "consumer"}
    assert all(len(text.splitlines()) <= 80 for text in pages.values())
