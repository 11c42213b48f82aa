"""`culm connector` and `culm p2panda peer` as a user runs them: processes, exit codes, output."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.connectors.edge import topics
from tests.support.p2panda.logs import SCHEMA

_SHORT_S = 60
PEER = ("p2panda", "peer")


def culm(*arguments: object, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "culm_infra", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=_SHORT_S,
        check=False,
        env=os.environ | environment,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@contextlib.contextmanager
def serving(*arguments: object) -> Iterator[dict[str, Any]]:
    """A command that says in one line of JSON where it serves, then ends well when it is asked to."""
    command = [sys.executable, "-m", "culm_infra", *map(str, arguments), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"{command} ended with {process.wait(_SHORT_S)}"
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(_SHORT_S)
        process.stdout.close()
    assert status == 0


def test_two_peers_write_and_synchronise(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    peer_id = json.loads(culm(*PEER, "init", "--dir", a, "--json").stdout)["peer_id"]
    created = culm(*PEER, "publish", "create", "name=Culm", "height:int=3", "--schema", SCHEMA, "--dir", a)
    document = created.stdout.strip()
    update = (*PEER, "publish", "update", "name=New", "--schema", SCHEMA, "--document", document)
    row = json.loads(culm(*update, "--dir", a, "--json").stdout)
    assert (row["public_key"], row["log_id"], row["seq_num"], row["action"]) == (peer_id, 0, 2, "update")
    with serving(*PEER, "serve", "--dir", a) as where:
        assert where["peer_id"] == peer_id
        command = (*PEER, "sync", where["address"], "--expect", peer_id, "--dir", b, "--json")
        summary = json.loads(culm(*command).stdout)
        assert (summary["entries_received"], summary["remote"]) == (2, peer_id)
        refused = culm(*PEER, "sync", where["address"], "--expect", "00" * 32, "--dir", b, check=False)
        assert refused.returncode == 1
    status = json.loads(culm(*PEER, "status", "--dir", b, "--json").stdout)
    assert (status["logs"], status["entries"], status["schemas"]) == (1, 2, [SCHEMA])
    exported = culm(*PEER, "export", "--dir", b).stdout
    assert exported == culm(*PEER, "export", "--dir", a).stdout
    history = tmp_path / "history.jsonl"
    history.write_text(exported)
    culm(*PEER, "init", "--dir", tmp_path / "c")
    taken = json.loads(culm(*PEER, "import", history, "--dir", tmp_path / "c", "--json").stdout)
    assert taken == {"taken": 2, "refused": {}}
    listed = culm(*PEER, "show", f"{peer_id}/0", "--dir", b, "--json").stdout.splitlines()
    assert [json.loads(line)["seq_num"] for line in listed] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "status", "phrase"),
    [
        ((*PEER, "status"), 1, "culm p2panda peer init"),
        ((*PEER, "sync", "nowhere"), 2, "HOST:PORT"),
        ((*PEER, "publish", "create", "x", "--schema", SCHEMA), 1, "NAME=VALUE"),
        ((*PEER, "publish", "create", "x=1", "--schema", "no schema"), 2, "schema"),
        (("connector", "run", "--listen", "nowhere"), 2, "HOST:PORT"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], status: int, phrase: str
) -> None:
    if "publish" in arguments:
        culm(*PEER, "init", "--dir", tmp_path / "a")
    done = culm(*arguments, "--dir", tmp_path / "a", check=False, CULM_BOOTSTRAP="127.0.0.1:1")
    assert done.returncode == status
    assert phrase in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.kafka
def test_a_connector_process_serves_peers(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> None:
    topics(kafka_bootstrap, topic_prefix)
    options = ("--bootstrap", kafka_bootstrap, "--prefix", topic_prefix, "--log-format", "json")
    a, b = tmp_path / "a", tmp_path / "b"
    culm(*PEER, "init", "--dir", a)
    for number in range(3):
        culm(*PEER, "publish", "create", f"name={number}", "--schema", SCHEMA, "--dir", a)
    with (
        serving("connector", "run", *options, "--dir", tmp_path / "edge-1", "--metrics-port", 0) as first,
        serving("connector", "run", *options, "--dir", tmp_path / "edge-2", "--schema", SCHEMA) as second,
    ):
        assert first["metrics_port"] > 0
        shown = json.loads(culm("connector", "status", "--dir", tmp_path / "edge-1", "--json").stdout)
        assert (shown["metrics_port"], shown["ready"]) == (first["metrics_port"], True)
        assert first["address"] in shown["protocols"]["p2panda"]["doors"].values()
        sent = json.loads(culm(*PEER, "sync", first["address"], "--dir", a, "--json").stdout)
        assert sent["entries_sent"] == 3
        command = (*PEER, "sync", second["address"], "--schema", SCHEMA, "--dir", b, "--json")
        received = 0
        while received < 3:
            received += json.loads(culm(*command).stdout)["entries_received"]
    assert culm(*PEER, "export", "--dir", b).stdout == culm(*PEER, "export", "--dir", a).stdout
    stopped = culm("connector", "status", "--dir", tmp_path / "edge-1", check=False)
    assert stopped.returncode == 3 and "no connector runs" in stopped.stderr
    peer_id = culm("connector", "id", "--dir", tmp_path / "edge-1").stdout.strip()
    assert peer_id == first["peer_id"]
