"""`culm demo` as a user runs it: a stack of its own, and the verdict for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.deployment.demo import culm


def test_the_demo_says_what_it_does() -> None:
    done = culm("demo", "--help")
    assert done.returncode == 0
    for option in ("--peers", "--entries", "--live", "--seed", "--json", "--keep"):
        assert option in done.stdout


@pytest.mark.kafka
@pytest.mark.spark
def test_the_demo_converges(tmp_path: Path) -> None:
    done = culm(
        *("demo", "--peers", 2, "--entries", 200, "--live", 40, "--seed", 11),
        *("--stack", tmp_path / "demo", "--timeout", 300, "--json"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["converged"] is True
    [scene] = report["scenes"]
    assert scene["problems"] == []
    figures = {figure["label"]: figure["value"] for figure in scene["figures"]}
    assert (figures["forked logs found"], figures["published live"]) == (1, 40)
    assert [peer["edge"] for peer in scene["peers"]] == ["west", "east"]
    assert all(peer["lost"] == peer["repeated"] == peer["differing"] == 0 for peer in scene["peers"])
    # Every peer syncs by set reconciliation, and the connector with an empty index knows all from `blocks`.
    assert {session["peer"] for session in scene["sessions"]} == {"peer-1", "peer-2"}
    assert all(session["rounds"] and session["bytes_sent"] for session in scene["sessions"])
    assert {session["chapter"] for session in scene["sessions"]} >= {"catch-up", "empty index"}
    logs = sum(row["logs"] for row in scene["blocks"])
    assert figures["with logs from blocks"] == logs > 0
    # Every document but the forked log's is the same at both edges and on the topic; one was edited at both.
    assert figures["document edited at both edges"] == 4
    assert figures["documents alike, peers and topic"] == logs - 2
    unmerged, merged = scene["document"][:2], scene["document"][2:]
    assert [row["holder"] for row in unmerged] == ["peer-1", "peer-2"]
    assert [row["holder"] for row in merged] == ["peer-1", "peer-2", "topic documents"]
    for rows, heads in ((unmerged, 2), (merged, 1)):
        assert {row["heads"] for row in rows} == {heads}
        assert len({row["digest"] for row in rows}) == 1
    # The fork's branch is in `logs` beyond what counts as common.
    assert sum(row["entries"] for row in scene["blocks"]) == figures["in logs, on common branches"] + 4
