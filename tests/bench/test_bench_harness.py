"""The harness of the benchmarks: ratios, goals, and what is written. No figure is asserted."""

from __future__ import annotations

import json
import math
from pathlib import Path

from bench.__main__ import CASES
from bench.harness import BenchSettings, Ratio, interleaved_rates, save
from bench.material import entries, for_sign_open, verify_all
from bench.ratio_plot import draw
from culm_models.bamboo.checks import CheckedEntry
from culm_models.p2panda.operations.operation import check_many


def test_a_rate_has_to_reach_its_goal_and_a_latency_has_to_stay_below() -> None:
    assert Ratio("x", "rate", 50, 100, "/s", "limit", goal=0.5).met is True
    assert Ratio("x", "rate", 49, 100, "/s", "limit", goal=0.5).met is False
    assert Ratio("x", "latency", 300, 100, "µs", "limit", goal=3, higher_is_better=False).met is True
    assert Ratio("x", "latency", 301, 100, "µs", "limit", goal=3, higher_is_better=False).met is False
    assert Ratio("x", "shown", 1, 2, "/s", "limit", goal=None).met is None
    assert math.isnan(Ratio("x", "none", 1, 0, "/s", "limit", goal=None).ratio)


def test_results_are_written_as_json_and_as_a_plot(tmp_path: Path) -> None:
    ratios = [Ratio("x", "rate", 50, 100, "/s", "limit", goal=0.5, details={"n": 1})]
    folder = save(ratios, BenchSettings(quick=True, results=tmp_path / "results"))
    document = json.loads((folder / "results.json").read_text())
    assert document["ratios"][0]["ratio"] == 0.5
    assert document["ratios"][0]["details"] == {"n": 1}
    assert document["machine"]["cpus"]


def test_ratios_are_drawn_the_same_way_twice(tmp_path: Path) -> None:
    rate = Ratio("x", "rate", 50, 100, "/s", "limit", goal=0.5)
    latency = Ratio("x", "latency", 3, 1, "ms", "limit", goal=4, higher_is_better=False)
    for name in ("first.svg", "second.svg"):
        draw([rate, latency], tmp_path / name)
    drawing = (tmp_path / "first.svg").read_text()
    assert drawing == (tmp_path / "second.svg").read_text()
    assert "x: latency" in drawing


def test_actions_are_run_by_turns() -> None:
    turns: list[str] = []

    def action(name: str) -> int:
        turns.append(name)
        return 1

    rates = interleaved_rates([lambda: action("a"), lambda: action("b")], repeats=2)
    assert turns == ["a", "b", "a", "b"]
    assert all(rate > 0 for rate in rates)


def test_the_made_entries_are_entries_and_both_sides_verify_the_same() -> None:
    pairs = entries(40, seed=1)
    assert len(pairs) == 40
    assert all(isinstance(checked, CheckedEntry) for checked in check_many(pairs))
    assert verify_all(for_sign_open(pairs), threads=2) == 40


def test_every_case_has_its_module() -> None:
    folder = Path(__file__).parents[2]
    for module in CASES.values():
        assert (folder / f"{module.replace('.', '/')}.py").is_file()
