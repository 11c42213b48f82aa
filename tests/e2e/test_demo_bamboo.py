"""`culm demo bamboo` as a user runs its scene over Kafka: two edges, and the jobs `logs` and `coverage`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.deployment.demo import culm


@pytest.mark.kafka
@pytest.mark.spark
def test_logs_go_whole_and_sparse_over_two_edges(tmp_path: Path) -> None:
    done = culm("demo", "bamboo", "--scene", "edges", "--live-entries", 10, "--stack", tmp_path, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    [scene] = json.loads(done.stdout)["scenes"]
    figures = {figure["label"]: figure["value"] for figure in scene["figures"]}
    assert figures["entries from peer to peer, each once"] == 10
    assert figures["records of the live log on `logs`"] == 11
    assert figures["proven at the other edge"] is True
