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
    done = culm("demo", "chotki", "--objects", 6, "--rounds", 6, "--dir", tmp_path / "demo", "--json")
    assert done.returncode == 0, done.stderr
    [report] = json.loads(done.stdout)["scenes"]
    assert report["problems"] == []
    places = [one["place"] for one in report["holders"] if one["kind"] == "replica"]
    assert places == ["west, tcp", "east, tls", "west, quic", "west, tcp"]
    assert [one["kind"] for one in report["holders"]][4:] == ["edge", "edge", "topic"]
    assert len({(one["state_hash"], one["vector_hash"]) for one in report["holders"]}) == 1
    assert {one["letter"] for one in report["types"] if one["made"]} == {*LETTERS, *"COY"}
    # Three connections of the killed edge, so the recorded bytes came twice and were counted once.
    figures = {one["label"]: one["value"] for one in report["figures"]}
    assert figures["said again at every connection"] >= 2
    assert figures["counters with a wrong sum"] == 0
