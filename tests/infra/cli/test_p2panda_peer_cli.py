"""`culm p2panda peer`: what a synchronisation reports, and its exit status."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
from pathlib import Path

import pytest

from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.p2panda.reference_peer.peer import STORE_FOLDER, ReferencePeer
from culm_connectors.transport import ConnectError
from culm_infra.cli.kit.reaching import when_it_answers
from culm_infra.cli.root import run
from culm_models.p2panda.operations.operation import CheckedOperation, peek
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs


def hold(home: Path, entries: list[CheckedOperation]) -> None:
    """Put entries into a peer's store without asking whether they may be there."""
    load_or_make_key(home)
    store = LmdbLogStore(peek, home / STORE_FOLDER, durable=False)
    store.append(entries)
    store.close()


async def sync_with(remote: Path, mine: Path, *options: str) -> int:
    """The exit status of `culm p2panda peer sync` with a peer that serves what `remote` holds."""
    async with ReferencePeer(remote, durable=False) as peer, peer.serve() as listener:
        host, port = listener.address
        arguments = ["p2panda", "peer", "sync", f"{host}:{port}", "--dir", str(mine), *options]
        return await asyncio.to_thread(run, arguments)


def test_a_sync_lists_what_was_refused_and_what_could_not_be_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    log = make_log(author("writer"), 3, 3)
    fork = make_log(author("writer"), 3, 2, text="other", after=log[:2])
    large = LogWriter(author("large"), 7, SCHEMA)
    large.append({"data": bytes(MAX_OPERATION_BYTES)})
    hold(mine, [*log, *large.entries])
    hold(theirs, [*log[:2], *fork])
    assert asyncio.run(sync_with(theirs, mine, "--json")) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["refused"] == [
        {
            "code": "bamboo.backlink_mismatch",
            "public_key": author("writer").public_key.hex(),
            "log_id": 3,
            "seq_num": 4,
        }
    ]
    assert summary["undelivered"] == [
        {
            "code": "p2panda.operation.too_large",
            "public_key": author("large").public_key.hex(),
            "log_id": 7,
            "seq_num": 1,
        }
    ]
    assert asyncio.run(sync_with(theirs, mine)) == 1
    shown = " ".join(capsys.readouterr().err.split())
    for text in (
        f"bamboo.backlink_mismatch {author('writer').public_key.hex()} log 3 entry 4",
        f"p2panda.operation.too_large {author('large').public_key.hex()} log 7 entry 1",
    ):
        assert text in shown


def test_a_sync_that_delivers_everything_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    hold(mine, make_log(author("a"), 0, 3))
    hold(theirs, make_log(author("b"), 0, 3))
    assert asyncio.run(sync_with(theirs, mine, "--json")) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["refused"], summary["undelivered"], summary["logs_withheld"]) == ([], [], 0)


def test_import_refuses_what_peers_would_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(author("writer"), 0, SCHEMA)
    writer.append(end_of_log=True)
    writer.append()
    file = tmp_path / "log.jsonl"
    lines = [
        json.dumps({"entry": entry.hex(), "operation": operation.hex()})
        for entry, operation in pairs(writer.entries)
    ]
    file.write_text("\n".join(lines))
    home = tmp_path / "peer"
    load_or_make_key(home)
    assert run(["p2panda", "peer", "import", str(file), "--dir", str(home), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "taken": 1,
        "refused": {"bamboo.after_end_of_log": 1},
    }


@pytest.mark.parametrize(
    ("holds_something", "options", "received"), [(True, (), 0), (True, ("--schema", "*"), 3), (False, (), 3)]
)
def test_without_a_schema_a_sync_is_about_those_that_are_held(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    holds_something: bool,
    options: tuple[str, ...],
    received: int,
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    hold(mine, make_log(author("a"), 0, 3) if holds_something else [])
    hold(theirs, make_log(author("b"), 0, 3, schema_id=OTHER_SCHEMA))
    assert asyncio.run(sync_with(theirs, mine, "--json", *options)) == 0
    assert json.loads(capsys.readouterr().out)["entries_received"] == received


async def test_an_address_is_dialled_for_as_long_as_the_failures_change() -> None:
    failures = [ConnectError(f"failure {number}") for number in range(5)]

    async def dial() -> str:
        await asyncio.sleep(0.02)
        if failures:
            raise failures.pop()
        return "an answer"

    assert await when_it_answers(dial, 0.01) == "an answer"


async def test_an_address_is_given_up_when_its_failure_stays_the_same() -> None:
    async def dial() -> str:
        raise ConnectError("nothing listens")

    with pytest.raises(ConnectError, match="nothing listens"):
        await when_it_answers(dial, 0.01)


def test_the_next_command_can_be_pasted_if_the_folder_has_a_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "my peer")
    assert run(["p2panda", "peer", "init", "--dir", home]) == 0
    assert run(["p2panda", "peer", "status", "--dir", home]) == 0
    shown = capsys.readouterr().err.splitlines()
    lines = [shlex.split(line) for line in shown if line.startswith("next: ")]
    assert [line[-2:] for line in lines] == [["--dir", home]] * 2


def test_a_number_without_a_type_is_published_as_text_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--dir", str(tmp_path / "peer")]
    assert run(["p2panda", "peer", "init", *home]) == 0
    capsys.readouterr()
    schema = f"venue_0020{'ab' * 32}"
    fields = [
        "name=Culm",
        "seats=40",
        "price=1.5",
        "open=true",
        "floor:int=2",
        "code:str=7",
        "day=2026-11-27",
    ]
    assert run(["p2panda", "peer", "publish", "create", *fields, "--schema", schema, *home]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert [line.split(": ", 1)[1] for line in warnings] == [
        "seats=40 is published as text; write seats:int=40 for an integer",
        "price=1.5 is published as text; write price:float=1.5 for a number",
        "open=true is published as text; write open:bool=true for a truth value",
    ]


def test_a_field_of_a_known_schema_needs_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--dir", str(tmp_path / "peer")]
    assert run(["p2panda", "peer", "init", *home]) == 0
    fields = ["name=venue", "description=1.5", "fields="]
    wrong = run(["p2panda", "peer", "publish", "create", *fields, "--schema", "schema_definition_v1", *home])
    assert wrong == 1, "the schema wants a list of relations, so the text is refused"
    typed = ["name=venue", "description=1.5", "fields:pinned_relation_list="]
    capsys.readouterr()
    assert (
        run(["p2panda", "peer", "publish", "create", *typed, "--schema", "schema_definition_v1", *home]) == 0
    )
    assert "warning" not in capsys.readouterr().err


def test_a_publish_that_cannot_be_signed_says_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--dir", str(tmp_path / "peer")]
    assert run(["p2panda", "peer", "init", *home]) == 0
    schema, unknown = f"venue_0020{'ab' * 32}", f"0020{'cd' * 32}"
    for words, status, texts in (
        (("create", "seats:int=x", "--schema", schema), 1, ("not of the type int",)),
        (("create", "name=Reed", "--schema", "venue"), 2, ("--schema", "no schema id")),
        (("update", "name=Reed", "--schema", schema), 1, ("an update names", "--document")),
        (("update", "name=Reed", "--schema", schema, "--document", "1234"), 2, ("--document",)),
        (("delete", "--schema", schema, "--document", unknown), 1, (unknown, "culm p2panda peer sync")),
    ):
        assert run(["p2panda", "peer", "publish", *words, *home]) == status
        shown = capsys.readouterr().err
        assert all(text in shown for text in texts), shown


def test_an_update_of_a_deleted_document_is_published_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--dir", str(tmp_path / "peer"), "--json"]
    assert run(["p2panda", "peer", "init", *home]) == 0
    publish = ["p2panda", "peer", "publish"]
    schema = ["--schema", f"venue_0020{'ab' * 32}", *home]
    capsys.readouterr()
    assert run([*publish, "create", "name=Reed", *schema]) == 0
    document = ["--document", json.loads(capsys.readouterr().out)["operation_id"]]
    for words, is_warned in (
        (("update", "name=Heron"), False),
        (("delete",), False),
        (("update", "name=Teal"), True),
    ):
        assert run([*publish, *words, *document, *schema]) == 0
        assert ("the document was deleted" in capsys.readouterr().err) == is_warned


def test_show_lists_logs_and_the_entries_of_one_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "peer"
    hold(home, make_log(author("a"), 4, 3))
    key = author("a").public_key.hex()
    for argument, numbers in ((key, [None]), (f"{key}/4", [1, 2, 3]), (f"{key}/5", []), ("0", [])):
        capsys.readouterr()
        assert run(["p2panda", "peer", "show", argument, "--dir", str(home), "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row.get("seq_num") for row in rows] == numbers
    assert run(["p2panda", "peer", "show", "Z" * 64, "--dir", str(home)]) == 2
    assert run(["p2panda", "peer", "show", f"{key}:4", "--dir", str(home)]) == 2
    assert "write KEY/LOG_ID" in " ".join(capsys.readouterr().err.split())


def test_an_export_goes_to_standard_output_unless_a_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, file = tmp_path / "peer", tmp_path / "history.jsonl"
    hold(home, make_log(author("a"), 4, 3))
    assert run(["p2panda", "peer", "export", "--dir", str(home)]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 3
    for output in ("-", str(file), str(file)):
        assert run(["p2panda", "peer", "export", "--dir", str(home), "-o", output]) == 0
    assert capsys.readouterr().out == printed == file.read_text()


def test_a_sync_says_what_it_waits_for_and_ends_at_its_timeout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        where = f"quic://127.0.0.1:{silent.getsockname()[1]}"
        arguments = ["p2panda", "peer", "sync", where, "--timeout", "1", "--dir", str(tmp_path / "new")]
        assert run(arguments) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert f"waiting for an answer of {where}, at most 1 s (--timeout)" in shown
    assert f"new folder for the key and the data: {tmp_path / 'new'}" in shown


def test_an_address_of_another_transport_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["p2panda", "peer", "sync", "tcp://127.0.0.1:1"]) == 2
    assert "quic://HOST:PORT" in capsys.readouterr().err
