"""`culm demo chotki` as a user runs it: equal state and vectors everywhere, over a killed edge and job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from culm_infra.demo.chotki.plan import LETTERS

_LIMIT_S = 280
# As in the other tests on Spark: a micro-batch of a cold JVM costs by its tasks.
_ENVIRONMENT = os.environ | {"CULM_JOB__STATE_PARTITIONS": "2"}


@pytest.mark.kafka
@pytest.mark.spark
def test_the_chotki_demo_converges(tmp_path: Path) -> None:
    command = ("demo", "chotki", "--objects", 6, "--rounds", 6)
    done = subprocess.run(
        [sys.executable, "-m", "culm_infra", *map(str, command), "--dir", tmp_path / "demo", "--json"],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
        env=_ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    places = [one["place"] for one in report["holders"] if one["kind"] == "replica"]
    assert places == ["west, tcp", "east, tls", "west, quic", "west, tcp"]
    assert [one["kind"] for one in report["holders"]][4:] == ["edge", "edge", "topic"]
    assert len({(one["state_hash"], one["vector_hash"]) for one in report["holders"]}) == 1
    assert {one["letter"] for one in report["types"] if one["made"]} == {*LETTERS, *"COY"}
    # Three connections of the killed edge, so the recorded bytes came twice and were counted once.
    assert report["replayed"] >= 2
    assert report["wrong_sums"] == 0
