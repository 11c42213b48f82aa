"""Rules of the command line that `culm bamboo` and `culm dag` keep: folders, addresses, exports, `next:`."""

from __future__ import annotations

import io
import itertools
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_infra.cli.bamboo.folder import parse_address
from culm_infra.cli.dag.folder import parse_place
from culm_infra.cli.root import run

CULM = (sys.executable, "-c", "from culm_infra.cli import main; main()")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data directory; the working directory is another one, with a file."""
    for name in ("CULM_BAMBOO_DIR", "CULM_DAG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "film").write_bytes(b"film")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "data" / "culm"


def next_of(printed: str) -> list[str]:
    """The words of the command that a `next:` line names."""
    [line] = [line for line in printed.splitlines() if line.startswith("next: ")]
    return shlex.split(line.removeprefix("next: "))


@pytest.mark.parametrize(
    ("line", "name"), [("bamboo publish hello", "bamboo"), ("dag put film", "dag")], ids=["bamboo", "dag"]
)
def test_the_default_folder_is_in_the_users_data_directory_and_the_first_use_says_where(
    line: str, name: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 0
    assert f"{data / name} (another one: --dir)" in capsys.readouterr().err
    assert (data / name / "private.key").is_file()
    assert [path.name for path in Path().iterdir()] == ["film"]
    assert run(line.split()) == 0
    assert str(data) not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["bamboo status", "dag status", "dag history", "bamboo pause --log 0"])
def test_a_command_that_only_looks_creates_no_folder(line: str, data: Path) -> None:
    assert run(line.split()) == 1
    assert not data.exists()


@pytest.mark.parametrize(
    "line", ["bamboo publish x --flavour none", "dag put film --proof-policy none", "dag put film --codec x"]
)
def test_wrong_arguments_create_no_folder(line: str, data: Path) -> None:
    assert run(line.split()) == 2
    assert not data.exists()


def test_the_environment_names_the_folders(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_BAMBOO_DIR", "logs")
    monkeypatch.setenv("CULM_DAG_DIR", "dags")
    assert run(["bamboo", "publish", "hello"]) == run(["dag", "put", "film"]) == 0
    assert Path("logs/private.key").is_file() and Path("dags/private.key").is_file()
    assert not data.exists()


def test_an_address_without_a_scheme_has_the_transport_of_the_command() -> None:
    assert str(parse_address("peer.example:4400")) == "tcp://peer.example:4400"
    assert str(parse_address("[::1]:4400")) == "tcp://[::1]:4400"
    assert str(parse_address("quic://peer.example:4400")) == "quic://peer.example:4400"
    assert parse_place("edge:4460") == (None, ("edge", 4460))
    assert parse_place("quic://[::1]:4460") == ("quic", ("::1", 4460))


@pytest.mark.parametrize(
    ("line", "schemes"),
    [
        ("bamboo sync http://peer:4400", ("tcp", "tls", "quic")),
        ("bamboo serve 127.0.0.1", ("tcp", "tls", "quic")),
        ("bamboo serve 127.0.0.1:0 --dial x", ("tcp", "tls", "quic")),
        ("dag sync tcp://edge:4460", ("quic",)),
        ("dag serve tcp://127.0.0.1:0", ("quic", "http", "https")),
    ],
)
def test_a_wrong_address_is_refused_with_the_schemes(
    line: str, schemes: tuple[str, ...], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    printed = capsys.readouterr().err
    assert all(f"{scheme}://HOST:PORT" in printed.replace("\n", " ") for scheme in schemes)
    assert not data.exists()


def test_a_bundle_goes_through_standard_output_and_input(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["bamboo", "publish", "a", "b", "c"]) == 0
    assert run(["bamboo", "export", "--last", "2", "-o", "stick"]) == 0
    capsysbinary.readouterr()
    assert run(["bamboo", "export", "--last", "2"]) == 0
    printed = capsysbinary.readouterr()
    assert printed.out == Path("stick").read_bytes()
    assert run(["bamboo", "export", "--json"]) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.out)))
    capsysbinary.readouterr()
    assert run(["bamboo", "import", "-", "--dir", "other", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["new_payloads"] == 2


def test_a_car_goes_to_standard_output_and_a_whole_export_needs_a_folder(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert run(["dag", "put", "film", "--json"]) == 0
    cid = json.loads(capsysbinary.readouterr().out)["cid"]
    assert run(["dag", "export", "--root", cid, "-o", "film.car"]) == 0
    capsysbinary.readouterr()
    assert run(["dag", "export", "--root", cid]) == 0
    assert capsysbinary.readouterr().out == Path("film.car").read_bytes()
    assert run(["dag", "export"]) == run(["dag", "export", "-o", "-"]) == 2
    capsysbinary.readouterr()
    assert run(["dag", "get", cid, "-o", "-"]) == run(["dag", "get", cid]) == 0
    assert capsysbinary.readouterr().out == b"filmfilm"
    assert run(["dag", "get", cid, "-o", "copy"]) == 0
    assert Path("copy").read_bytes() == b"film"


def test_json_has_no_line_without_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bamboo", "publish", "a"]) == run(["dag", "put", "film"]) == 0
    for line in ("bamboo policy", "bamboo pause", "dag history"):
        capsys.readouterr()
        assert run([*line.split(), "--json"]) == 0
        assert not capsys.readouterr().out
    assert run(["bamboo", "pause", "--peer", "address:192.0.2.7", "--log", "0", "--json"]) == 0
    paused = [json.loads(line)["paused"] for line in capsys.readouterr().out.splitlines()]
    assert len(paused) == 2 and "address:192.0.2.7" in paused


def test_what_follows_is_named_and_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--dir", "my folder"]
    assert run(["bamboo", "publish", "a", *folder]) == 0
    assert next_of(capsys.readouterr().err) == ["culm", "bamboo", "serve", "127.0.0.1:4400", *folder]
    assert run(["bamboo", "export", *folder, "-o", "a stick"]) == 0
    assert run(next_of(capsys.readouterr().err)[1:]) == 0
    assert run(next_of(capsys.readouterr().err)[1:]) == 0
    capsys.readouterr()

    folder = ["--dir", "my site"]
    assert run(["dag", "put", "film", *folder]) == 0
    assert run(next_of(capsys.readouterr().err)[1:]) == 0
    assert next_of(capsys.readouterr().err) == ["culm", "dag", "serve", "127.0.0.1:4460", *folder]
    assert run(["dag", "export", *folder, "-o", "a backup"]) == 0
    assert run([*next_of(capsys.readouterr().err)[1:-1], "third"]) == 0
    assert run(next_of(capsys.readouterr().err)[1:]) == 0


@pytest.mark.parametrize("line", ["bamboo publish a", "dag put film"])
def test_programs_get_no_next_line(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*line.split(), "--json"]) == 0
    assert "next:" not in capsys.readouterr().err


def until_next(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stderr is not None
    for line in process.stderr:
        yield line
        if line.startswith("next: "):
            return


@pytest.mark.parametrize("noun", ["bamboo", "dag"])
def test_serve_names_the_command_that_fetches(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bamboo", "publish", "a"] if noun == "bamboo" else ["dag", "put", "film"]) == 0
    server = subprocess.Popen([*CULM, noun, "serve", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        fetching = next_of("".join(until_next(server)))
        assert fetching[:3] == ["culm", noun, "sync"]
        capsys.readouterr()
        assert run([*fetching[1:], "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["payloads" if noun == "bamboo" else "shards"] == 1
    finally:
        server.terminate()
        server.communicate()


@pytest.mark.parametrize("line", ["bamboo sync quic://", "dag sync quic://"])
def test_a_sync_that_waits_says_for_whom_within_a_second(line: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        command = [*CULM, *f"{line}127.0.0.1:{silent.getsockname()[1]}".split()]
        caller = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert caller.stderr is not None
        try:
            earlier_lines = itertools.takewhile(lambda printed: "waiting for" not in printed, caller.stderr)
            assert "new folder" in "".join(earlier_lines)
            assert caller.poll() is None
        finally:
            caller.terminate()
            caller.communicate()
