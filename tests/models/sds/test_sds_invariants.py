"""docs/sds-invariants.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "sds-invariants.md").read_text()


def test_every_test_that_the_document_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", DOC))
    there = {
        name
        for file in [*(ROOT / "tests").rglob("test_sds_*.py"), ROOT / "tests/models/test_simulations.py"]
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 40
    assert named <= there


def test_every_row_names_a_test_or_a_measurement() -> None:
    rows = [line for line in DOC.splitlines() if line.startswith("| ") and not line.startswith("| elsewhere")]
    assert len(rows) > 30
    assert all("`test_" in row or "`make bench`" in row for row in rows)
