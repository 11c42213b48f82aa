"""The status socket: one document for each client, whatever clients and former processes have done."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from culm_topics import status_socket as module
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.process_status import MAX_WARNINGS, ProcessStatus, RecentWarnings
from culm_topics.status_socket import (
    FORMAT,
    MAX_CLIENTS,
    NothingRuns,
    StatusSocketError,
    is_served,
    read_status,
    status_socket,
)
from tests.support.process.waiting import looks


def document(**fields: Any) -> dict[str, Any]:
    return {"format": FORMAT, **fields}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edge" / "status.sock"


def raw_client(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(30)
    client.connect(str(path))
    return client


def test_every_client_gets_the_document_of_its_own_time_and_then_the_end(path: Path) -> None:
    numbers = iter(range(100))
    with status_socket(path, lambda: document(number=next(numbers))) as is_open:
        assert is_open
        assert [read_status(path)["number"] for _ in range(3)] == [0, 1, 2]
        with raw_client(path) as first, raw_client(path) as second:
            for client in (second, first):
                received = b"".join(iter(lambda client=client: client.recv(7), b""))  # type: ignore[misc]
                assert json.loads(received)["number"] in (3, 4)


def test_nothing_is_computed_while_nobody_asks(path: Path) -> None:
    with status_socket(path, lambda: pytest.fail("nobody has asked")):
        time.sleep(0.05)


def test_only_its_user_can_connect_and_a_new_folder_is_closed_to_others(path: Path) -> None:
    before = os.umask(0)
    try:
        with status_socket(path, document):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_it_disappears_at_the_end_and_leaves_nothing_else(path: Path) -> None:
    with status_socket(path, document):
        assert [entry.name for entry in path.parent.iterdir()] == ["status.sock"]
    assert list(path.parent.iterdir()) == []
    with pytest.raises(NothingRuns):
        read_status(path)


KILLED = """
import sys, time
from pathlib import Path
from culm_topics.status_socket import status_socket
with status_socket(Path(sys.argv[1]), lambda: {"format": 1}):
    print("open", flush=True)
    time.sleep(600)
"""


def test_the_file_of_a_killed_process_is_replaced(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process, process.stdout as output:
        assert output.readline() == b"open\n"
        assert is_served(path)
        process.send_signal(signal.SIGKILL)
    assert path.is_socket() and not is_served(path)
    with pytest.raises(NothingRuns, match="nothing is served"):
        read_status(path)
    with status_socket(path, lambda: document(which="new")):
        assert read_status(path)["which"] == "new"


def test_the_socket_of_a_living_process_is_kept(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with status_socket(path, lambda: document(which="first")):
        with status_socket(path, lambda: document(which="second")) as is_open:
            assert not is_open
            assert read_status(path)["which"] == "first"
        assert read_status(path)["which"] == "first"
    assert "another process serves" in caplog.text


def test_a_file_that_is_not_a_socket_is_kept(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_text("notes")
    with status_socket(path, document) as is_open:
        assert not is_open
    assert path.read_text() == "notes" and "is not a socket" in caplog.text


def test_a_folder_that_cannot_be_written_costs_only_the_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with status_socket(tmp_path / "file" / "status.sock", document) as is_open:
        assert not is_open
    assert "no status socket" in caplog.text


@pytest.mark.parametrize("length", [60, 120, 240])
def test_a_path_of_any_length_is_served(tmp_path: Path, length: int) -> None:
    folder = tmp_path / ("f" * length)
    for name in ("status.sock", f"job-{'p' * 64}-{'j' * 64}.sock"):
        path = folder / name
        with status_socket(path, lambda: document(kind="job")), status_socket(path, document) as is_second:
            assert path.is_socket() and not is_second
            assert read_status(path) == {"format": FORMAT, "kind": "job"}
        assert not path.exists()


def test_clients_that_send_data_or_never_read_do_not_delay_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLIENT_TIMEOUT_S", 600.0)
    large = document(text="x" * 3_000_000)
    with status_socket(path, lambda: large), ExitStack() as stack:
        for _ in range(MAX_CLIENTS - 1):
            client = stack.enter_context(raw_client(path))
            client.setblocking(False)
            with pytest.raises((BlockingIOError, BrokenPipeError)):
                while True:
                    client.send(b"\0" * 65_536)
        for _ in range(3):
            assert read_status(path) == large


def test_clients_are_bounded_and_those_that_never_read_are_disconnected(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLIENT_TIMEOUT_S", 0.3)
    large = document(text="x" * 3_000_000)
    asked: list[float] = []

    def count() -> dict[str, Any]:
        asked.append(time.monotonic())
        return large

    with status_socket(path, count), ExitStack() as stack:
        for _ in range(MAX_CLIENTS + 5):
            stack.enter_context(raw_client(path))
        for _ in looks("the clients that are served"):
            if len(asked) >= MAX_CLIENTS:
                break
        first = tuple(asked)
        assert read_status(path, timeout_s=60) == large
        assert len([at for at in asked if at < first[0] + 0.25]) <= MAX_CLIENTS


def test_a_slow_client_gets_all_of_it(path: Path) -> None:
    large = document(text="x" * 1_000_000)
    with status_socket(path, lambda: large), raw_client(path) as client:
        received = bytearray()
        while part := client.recv(200_000):
            received += part
            time.sleep(0.02)
        assert json.loads(received) == large


def test_many_clients_at_once_are_all_answered(path: Path) -> None:
    with status_socket(path, lambda: document(text="x" * 100_000)), ThreadPoolExecutor(40) as threads:
        answers = list(threads.map(lambda _: read_status(path, timeout_s=60), range(120)))
    assert all(len(answer["text"]) == 100_000 for answer in answers)


def test_a_document_that_cannot_be_computed_costs_one_answer(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([ZeroDivisionError("a defect")])

    def failing() -> dict[str, Any]:
        for failure in failures:
            raise failure
        return document()

    with status_socket(path, failing):
        with pytest.raises(StatusSocketError, match="not a JSON document"):
            read_status(path)
        assert read_status(path) == document()
    assert "a defect" in caplog.text


@pytest.fixture
def answering(path: Path) -> Iterator[socket.socket]:
    """A socket that another program serves."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        yield listening


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "not a JSON document"),
        (b"\xff", "not a JSON document"),
        (b"[1]", "format of the answer is None"),
        (b'{"format": 2}', "format of the answer is 2"),
    ],
)
def test_an_answer_of_another_form_is_an_error(
    path: Path, answering: socket.socket, answer: bytes, reason: str
) -> None:
    def serve() -> None:
        connection, _ = answering.accept()
        with connection:
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(StatusSocketError, match=reason):
        read_status(path)
    thread.join()


def test_an_answer_that_does_not_come_is_an_error(path: Path, answering: socket.socket) -> None:
    with pytest.raises(StatusSocketError, match="no answer in time"):
        read_status(path, timeout_s=0.1)


# The fields that documents of all processes share.


def test_a_document_has_the_latest_warnings_and_the_reasons_why_it_is_not_ready() -> None:
    process = ProcessStatus("job", KafkaSettings(bootstrap="127.0.0.1:9", prefix="culm.", options={"a": "b"}))
    log = logging.getLogger("culm_topics.test")
    log.setLevel(logging.INFO)
    log.warning("before")
    with process.collect_warnings():
        log.info("not a warning")
        for number in range(MAX_WARNINGS + 5):
            log.warning("number %d", number)
        log.warning("y" * 10_000)
    log.warning("afterwards")
    fields = process.document("running", ["Kafka is away"], queries=[])
    assert (fields["format"], fields["kind"], fields["pid"]) == (FORMAT, "job", os.getpid())
    assert fields["kafka"] == {"bootstrap": "127.0.0.1:9", "prefix": "culm."}, "no properties: secrets"
    assert (fields["ready"], fields["reasons"], fields["queries"]) == (False, ["Kafka is away"], [])
    assert process.document("running", [])["ready"]
    messages = [warning["message"] for warning in fields["warnings"]]
    assert len(messages) == MAX_WARNINGS
    assert messages[-2:] == [f"number {MAX_WARNINGS + 4}", "y" * 500]


def test_a_warning_whose_arguments_do_not_match_is_kept_as_it_is_written() -> None:
    warnings = RecentWarnings()
    warnings.handle(logging.LogRecord("x", logging.ERROR, "x.py", 1, "%d records", ("no number",), None))
    assert [warning["message"] for warning in warnings.lines()] == ["%d records"]
