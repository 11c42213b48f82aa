"""Targets over real sockets: good, slow, huge, malformed, forbidden and absent ones."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from culm_infra.console.overview import fetch
from culm_infra.console.overview.reading import NoReading
from culm_infra.console.overview.targets import target_list
from culm_topics.status_socket import status_socket
from tests.support.console import documents
from tests.support.console.documents import encoded
from tests.support.console.fake_targets import (
    Serve,
    after_request,
    answers,
    at_port,
    at_socket,
    endless,
    http,
    silent,
)

IMPATIENT_S = 0.5


async def read(text: str, timeout_s: float = 30.0) -> tuple[str, str]:
    """Return state and reason of a target."""
    (target,) = target_list([text], ()).now().values()
    try:
        reading = await target.read(timeout_s)
    except NoReading as failure:
        return failure.state, failure.reason
    return reading.state, "; ".join(reading.reasons)


async def test_a_status_socket_is_read(tmp_path: Path) -> None:
    with status_socket(tmp_path / "status.sock", documents.connector):
        assert await read(f"unix:{tmp_path}/status.sock") == ("ready", "")


async def test_a_path_may_be_longer_than_an_address(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with status_socket(folder / "status.sock", documents.connector):
        assert await read(f"unix:{folder}/status.sock") == ("ready", "")


@pytest.mark.parametrize(
    ("serve", "state", "reason"),
    [
        (answers(b""), "unknown", "not a JSON document"),
        (answers(b"garbage"), "unknown", "not a JSON document"),
        (endless, "unknown", "more than"),
        (silent, "down", "no answer within"),
        (answers(*[b" "] * 1_000, pause_s=0.01), "down", "no answer within"),
        (answers(encoded(documents.connector() | {"format": 0})), "older", "format 0"),
    ],
    ids=["empty", "garbage", "endless", "silent", "slow", "older"],
)
async def test_a_socket_with_another_answer_is_shown_as_such(
    serve: Serve, state: str, reason: str, tmp_path: Path
) -> None:
    async with at_socket(tmp_path / "status.sock", serve) as target:
        # The endless answer ends by its size, not by the time that a busy machine takes for it.
        got = await read(target, 60.0 if serve is endless else IMPATIENT_S)
        assert got[0] == state
        assert reason in got[1]


async def test_a_killed_process_and_an_absent_one_are_down(tmp_path: Path) -> None:
    path = tmp_path / "status.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    assert await read(f"unix:{path}") == ("down", "nothing runs: no process accepts connections there")
    assert await read(f"unix:{tmp_path}/other.sock") == ("down", "nothing runs: there is no status socket")


async def test_a_file_and_a_link_are_no_status_sockets(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to("/run/systemd/notify")
    for name in ("file", "link"):
        state, reason = await read(f"unix:{tmp_path}/{name}")
        assert (state, "is not a socket" in reason) == ("unknown", True)


@pytest.mark.parametrize("metrics", [documents.connector_metrics(), documents.job_metrics()])
async def test_metrics_and_readiness_are_read(metrics: bytes) -> None:
    async with at_port(http(metrics)) as target:
        assert await read(target) == ("ready", "")
    async with at_port(http(metrics, b"Kafka is away\nno index\n", ready_status=503)) as target:
        assert await read(target) == ("not_ready", "Kafka is away; no index")
    async with at_port(http(metrics, b"draining\n", ready_status=503)) as target:
        assert await read(target) == ("draining", "draining")


@pytest.mark.parametrize(
    ("serve", "state", "reason"),
    [
        (answers(b""), "unknown", "not HTTP"),
        (answers(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "unknown", "not HTTP"),
        (answers(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000), "unknown", "not HTTP"),
        (endless, "unknown", "not HTTP"),
        (silent, "down", "no answer within"),
        (answers(*[b"H"] * 1_000, pause_s=0.01), "down", "no answer within"),
        (http(b"culm_old 1\n"), "older", "another version"),
        (http(b"other 1\n"), "unknown", "no metrics of Culm"),
        (http(b"", status=403), "refused", "403"),
        (http(b"", status=404), "unknown", "404"),
        (http(b"", status=301), "unknown", "301"),
        (http(documents.connector_metrics(), b"?", ready_status=404), "not_ready", "404"),
    ],
)
async def test_a_port_with_another_answer_is_shown_as_such(serve: Serve, state: str, reason: str) -> None:
    async with at_port(serve if serve in (endless, silent) else after_request(serve)) as target:
        got = await read(target, 60.0 if serve is endless else IMPATIENT_S)
        assert got[0] == state
        assert reason in got[1]


async def test_metrics_of_any_size_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_METRICS_BYTES", 10_000)
    async with at_port(http(b"x" * 10_001)) as target:
        assert await read(target) == ("unknown", "the answer has more than 10000 bytes")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid:9100", "x..y:9100"])
async def test_a_port_where_nothing_listens_is_down(host: str) -> None:
    assert (await read(f"http://{host}"))[0] == "down"


def test_patterns_find_sockets_as_they_come_and_go(tmp_path: Path) -> None:
    targets = target_list([f"unix:{tmp_path}/*/status.sock", "http://edge-9:9100"], ())
    assert list(targets.now()) == ["http://edge-9:9100"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "status.sock").touch()
    (found,) = (target for target in targets.now().values() if target.source == "socket")
    assert (found.text, found.name, found.kind) == (f"unix:{tmp_path}/a/status.sock", "a", "edge")


def test_without_targets_the_sockets_of_this_machine_are_shown(tmp_path: Path) -> None:
    (tmp_path / "job-culm-sds.sock").touch()
    targets = target_list([], [f"{tmp_path}/job-*.sock", f"{tmp_path}/status.sock"])
    (found,) = targets.now().values()
    assert (found.name, found.kind) == ("culm-sds", "job")
