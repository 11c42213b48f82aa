"""`culm demo chotki` as a user runs it: equal state and vectors everywhere, over a killed edge and job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from culm_infra.demo.chotki.edits import LETTERS
from tests.support.deployment.demo import culm


@pytest.mark.kafka
@pytest.mark.spark
def test_the_chotki_demo_converges(tmp_path: Path) -> None:
    done = culm("demo", "chotki", "--objects", 6, "--rounds", 6, "--stack", tmp_path / "demo", "--json")
    assert done.returncode == 0, done.stderr
    [report] = json.loads(done.stdout)["scenes"]
    assert report["problems"] == []
    places = [holder["place"] for holder in report["holders"] if holder["kind"] == "replica"]
    assert places == ["west, tcp", "east, tls", "west, quic", "west, tcp"]
    assert [holder["kind"] for holder in report["holders"]][4:] == ["edge", "edge", "topic"]
    assert len({(holder["state_hash"], holder["vector_hash"]) for holder in report["holders"]}) == 1
    assert {row["letter"] for row in report["types"] if row["made"]} == {*LETTERS, *"COY"}
    # Three connections of the killed edge, so the recorded bytes came twice and were counted once.
    figures = {figure["label"]: figure["value"] for figure in report["figures"]}
    assert figures["recording sent again"] >= 2
    assert figures["counters with a wrong sum"] == 0
