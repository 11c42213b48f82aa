"""`culm bamboo`: publishing, looking, proving, carrying and decoding, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from culm_infra.cli.bamboo import app
from culm_infra.cli.bamboo.folder import complete_log
from culm_infra.cli.bamboo.rules import complete_paused
from culm_infra.cli.root import run
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import Cancelled, Notify, RawPayload, Switch


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_is_published_is_covered_proven_and_carried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs, stick = str(tmp_path / "mine"), str(tmp_path / "theirs"), str(tmp_path / "stick")
    assert run(["bamboo", "publish", "a", "b", "c", "--end", "--dir", mine, "--json"]) == 0
    entries = said(capsys)
    assert [(entry["seq_num"], entry["end_of_log"]) for entry in entries] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert run(["bamboo", "publish", "d", "--dir", mine]) == 1
    assert "log_ended" in capsys.readouterr().err
    assert run(["bamboo", "export", "-o", stick, "--dir", mine]) == 0
    assert run(["bamboo", "import", stick, "--dir", theirs]) == 0
    assert run(["bamboo", "drop", "--dir", mine, "--last", "2", "--json"]) == 0
    capsys.readouterr()
    log = entries[0]["log"]
    assert run(["bamboo", "status", "--dir", mine, "--json"]) == 0
    [status] = said(capsys)
    assert (status["log"], status["end_of_log"]) == (log, 3)
    assert (status["entries"], status["payloads"]) == ([[1, 3]], [[3, 3]])
    assert status["dropped_payloads"] == [[1, 2]]
    assert run(["bamboo", "proposals", "--dir", mine, "--json"]) == 0
    assert said(capsys) == []
    assert run(["bamboo", "proposals", "--dir", mine, "--again", "--json"]) == 0
    assert [(proposal["start"], proposal["end"], proposal["payload_only"]) for proposal in said(capsys)] == [
        (1, 2, True)
    ]
    assert run(["bamboo", "verify", "3", "--log", log, "--dir", theirs, "--json"]) == 0
    [proof] = said(capsys)
    assert proof["proven"] and proof["payload"]
    assert run(["bamboo", "verify", "9", "--log", log, "--dir", theirs]) == 3


def test_decode_explains_the_data_channel_and_names_what_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = encode_data(Switch(4)) + encode_data(Notify(3)) + encode_data(RawPayload(5)) + b"hello"
    data += encode_data(Cancelled(4))
    file = tmp_path / "data"
    file.write_bytes(data + bytes((200,)))
    assert run(["bamboo", "decode", str(file), "--channel", "data", "--json"]) == 1
    lines = said(capsys)
    assert [line["message"] for line in lines] == ["Switch", "Notify", "RawPayload", "Cancelled", "Broken"]
    assert lines[2]["size"] == 7 and lines[4]["fields"]["code"] == "bamboo_p2p.malformed"


def test_logs_of_the_folder_and_what_is_paused_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "mine")
    assert run(["bamboo", "publish", "a", "--dir", folder, "--json"]) == 0
    [log] = [entry["log"] for entry in said(capsys)]
    assert run(["bamboo", "pause", "--peer", "address:192.0.2.7", "--log", "0", "--dir", folder]) == 0
    context = typer.Context(typer.main.get_group(app), info_name="bamboo")
    context.params["folder"] = folder
    assert complete_log(context, log[:5]) == [log] and complete_log(context, "zz") == []
    assert complete_paused(context, "address") == ["address:192.0.2.7"]
    assert complete_paused(context, "") == sorted(["address:192.0.2.7", log])
    capsys.readouterr()
    assert run(["bamboo", "resume", "--all", "--dir", folder, "--json"]) == 0
    assert said(capsys) == []
    assert run(["bamboo", "resume", "--log", "0", "--dir", folder]) == 1
    assert run(["bamboo", "pause", "--peer", "ann", "--dir", folder]) == 2
