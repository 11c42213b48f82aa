"""`culm demo sds` as a user runs it: every log alike on a bad network, over a cut and a killed job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.deployment.demo import culm


@pytest.mark.kafka
@pytest.mark.spark
def test_the_sds_demo_converges(tmp_path: Path) -> None:
    done = culm(
        *("demo", "sds", "--participants", 3, "--messages", 12, "--cut", 4, "--timeout", 300),
        *("--stack", tmp_path / "demo", "--json"),
    )
    assert done.returncode == 0, done.stderr
    [report] = json.loads(done.stdout)["scenes"]
    assert report["problems"] == []
    assert [channel["profile"] for channel in report["channels"]] == ["spec", "js", "nim"]
    assert all(channel["logs_alike"] for channel in report["channels"])
    assert {channel["messages"] for channel in report["channels"][:2]} == {12}
    assert all(
        participant["lost"] == participant["twice"] == participant["gave_up"] == 0
        for participant in report["participants"]
    )
    assert {participant["kind"] for participant in report["participants"]} == {"full", "hosted"}
    assert {figure["label"]: figure["value"] for figure in report["figures"]}["lost by it"] > 0
