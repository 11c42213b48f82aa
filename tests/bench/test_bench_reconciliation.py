"""The sets that reconciliation is measured on, and that both ends find all there is to find."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from bench import negentropy
from bench.harness import BenchSettings
from bench.reconciliation_ends import WAYS, Way, reconcile
from bench.reconciliation_sets import SHAPES
from culm_models.lifts.vectors import join_items


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("differing", [0, 1, 40])
def test_pairs_are_in_order_and_differ_in_so_many_logs(shape: str, differing: int) -> None:
    pair = SHAPES[shape](500, differing)
    packed = [bytes(row) for row in join_items(pair.keys, pair.log_ids, pair.heights)]
    assert packed == sorted(set(packed))
    one_sided = np.flatnonzero(pair.on_a != pair.on_b)
    assert len({packed[index][:40] for index in one_sided}) == pair.differing == differing
    assert (pair.on_a | pair.on_b).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_both_ends_find_what_differs(shape: str, way: Way) -> None:
    pair = SHAPES[shape](2_000, 30)
    # It checks what was found.
    run = reconcile(pair, pair.side(pair.on_a), pair.side(pair.on_b), way)
    assert run.messages > run.batches > 2 and run.bytes > 0


def test_figures_of_another_machine_say_that_they_are() -> None:
    figures = negentropy.published("uniform", 1_000_000, 1_000)
    assert figures is not None and figures.published
    assert negentropy.published("uniform", 10_000, 1_000) is None


def test_an_implementation_that_is_named_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    missing = tmp_path / "Negentropy.js"
    with pytest.raises(FileNotFoundError):
        negentropy.implementation(BenchSettings(quick=True, results=tmp_path, negentropy=missing))
    missing.touch()
    monkeypatch.setenv(negentropy.VARIABLE, str(missing))
    assert negentropy.implementation(BenchSettings(quick=True, results=tmp_path)) == missing.resolve()
