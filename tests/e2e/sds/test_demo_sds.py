"""`culm demo sds` as a user runs it: every log alike on a bad network, over a cut and a killed job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_LIMIT_S = 280
# As in the other tests on Spark: a micro-batch of a cold JVM costs by its tasks.
_ENVIRONMENT = os.environ | {"CULM_JOB__STATE_PARTITIONS": "2"}


@pytest.mark.kafka
@pytest.mark.spark
def test_the_sds_demo_converges(tmp_path: Path) -> None:
    command = ("demo", "sds", "--participants", 3, "--messages", 12, "--cut", 4, "--timeout", 120)
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
    assert [channel["profile"] for channel in report["channels"]] == ["spec", "js", "nim"]
    assert all(channel["logs_alike"] for channel in report["channels"])
    assert {channel["messages"] for channel in report["channels"][:2]} == {12}
    assert all(one["lost"] == one["twice"] == one["gave_up"] == 0 for one in report["participants"])
    assert {one["kind"] for one in report["participants"]} == {"full", "hosted"}
    assert report["network"]["lost"] > 0
