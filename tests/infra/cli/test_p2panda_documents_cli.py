"""`culm p2panda documents`: what the operations in a peer's folder amount to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.logs.interchange import write_pairs
from culm_infra.cli.root import run
from tests.support.p2panda.logs import author, make_log, pairs

Culm = Callable[..., list[Any]]


@pytest.fixture
def culm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Culm:
    """Runs `culm p2panda` over one folder; returns the JSON lines that it prints."""

    def command(*words: str, status: int = 0) -> list[Any]:
        assert run(["p2panda", *words, "--dir", str(tmp_path / "peer"), "--json"]) == status
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    command("peer", "init")
    return command


def publish(culm: Culm, action: str, *fields: str, schema: str, document: str | None = None) -> str:
    named = [] if document is None else ["--document", document]
    (row,) = culm("peer", "publish", action, *fields, "--schema", schema, *named)
    operation_id: str = row["operation_id"]
    return operation_id


def define(culm: Culm) -> str:
    """Publish the definition of a schema with the fields `name` and `place`, and return its id."""
    place = publish(culm, "create", "name=place", "type=str", schema="schema_field_definition_v1")
    # The view of this definition has two operations.
    place = publish(
        culm, "update", "type=relation(blob_v1)", schema="schema_field_definition_v1", document=place
    )
    name = publish(culm, "create", "name=name", "type=str", schema="schema_field_definition_v1")
    fields = f"fields:pinned_relation_list={place};{name}"
    return "venue_" + publish(
        culm, "create", "name=venue", "description=", fields, schema="schema_definition_v1"
    )


def test_fields_are_the_latest_and_views_are_those_of_their_time(culm: Culm) -> None:
    schema = f"venue_0020{'ab' * 32}"
    created = publish(culm, "create", "name=Reed", "seats:int=40", schema=schema)
    updated = publish(culm, "update", "seats:int=41", schema=schema, document=created)
    (row,) = culm("documents", "list")
    assert row["document_id"] == created and row["view_id"] == [updated] and row["operations"] == 2
    assert {name: field["value"] for name, field in row["fields"].items()} == {"name": "Reed", "seats": 41}
    assert culm("documents", "show", created) == [row]
    (then,) = culm("documents", "show", created, "--view", created)
    assert then["fields"]["seats"]["value"] == 40
    assert culm("documents", "list", "--schema", "blob_v1") == []
    assert culm("documents", "list", "--schema", "venue") == [row]
    assert culm("documents", "list", "--author", row["owner"]) == [row]
    publish(culm, "delete", schema=schema, document=created)
    (row,) = culm("documents", "show", created)
    assert row["deleted"] and row["fields"] is None


def test_show_prints_the_view_as_its_option_takes_it(
    culm: Culm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = f"venue_0020{'ab' * 32}"
    created = publish(culm, "create", "name=Reed", schema=schema)
    heads = []
    for name in ("Heron", "Teal"):
        (row,) = culm(
            *("peer", "publish", "update", f"name={name}", "--schema", schema),
            *("--document", created, "--previous", created),
        )
        heads.append(row["operation_id"])
    line = ["p2panda", "documents", "show", created, "--dir", str(tmp_path / "peer")]
    assert run(line) == 0
    shown = capsys.readouterr().err
    assert f"operations: 3; view: {'_'.join(sorted(heads))}" in shown
    assert run([*line, "--view", "_".join(sorted(heads))]) == 0


def test_a_schema_whose_definition_is_held_types_the_fields_and_names_what_is_missing(culm: Culm) -> None:
    schema = define(culm)
    absent = f"0020{'cd' * 32}"
    created = publish(culm, "create", "name=Reed", f"place:relation={absent}", schema=schema)
    (row,) = culm("documents", "show", created, status=3)
    assert row["fields"]["place"]["type"] == "bytes"  # it is shown as it is, since the relation leads nowhere
    assert row["problems"]["place"]["code"] == "p2panda.document.relation_missing"
    piece = publish(culm, "create", "data:bytes=00", schema="blob_piece_v1")
    place = publish(
        culm,
        "create",
        "length:int=1",
        "mime_type=text/plain",
        f"pieces:pinned_relation_list={piece}",
        schema="blob_v1",
    )
    publish(culm, "update", f"place:relation={place}", schema=schema, document=created)
    (row,) = culm("documents", "show", created)
    assert row["fields"]["place"]["type"] == "relation"
    assert row["fields"]["place"]["value"] == place


def test_a_schema_id_with_another_name_than_its_definition_is_a_problem_of_its_document_alone(
    culm: Culm, tmp_path: Path
) -> None:
    """`publish` refuses to sign such an operation; others may send it."""
    wrong = define(culm).replace("venue_", "house_")
    honest = publish(culm, "create", "name=Reed", schema=f"venue_0020{'ab' * 32}")
    (created,) = make_log(author("stranger"), 0, 1, schema_id=wrong)
    with (tmp_path / "sent.jsonl").open("w") as file:
        write_pairs(file, pairs([created]))
    culm("peer", "import", str(tmp_path / "sent.jsonl"))
    hostile = created.hash.hex()
    rows = {row["document_id"]: row for row in culm("documents", "list")}
    assert honest in rows
    assert rows[hostile]["problems"]["(schema)"]["code"] == "p2panda.operation.schema"
    culm("documents", "show", hostile, status=3)


def test_a_blob_is_written_whole_or_not_at_all(
    culm: Culm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = [
        publish(culm, "create", f"data:bytes={data}", schema="blob_piece_v1") for data in ("6375", "6c6d")
    ]

    def blob(length: int, ids: str) -> str:
        fields = (f"length:int={length}", "mime_type=text/plain", f"pieces:pinned_relation_list={ids}")
        return publish(culm, "create", *fields, schema="blob_v1")

    whole, lacking = blob(4, ";".join(pieces)), blob(6, f"{pieces[0]};0020{'ef' * 32}")
    target = tmp_path / "out" / "blob"
    (row,) = culm("documents", "blob", whole, "-o", str(target))
    assert row["bytes"] == 4 and target.read_bytes() == b"culm"
    culm("documents", "blob", lacking, "-o", str(tmp_path / "lacking"), status=1)
    assert not (tmp_path / "lacking").exists()
    assert run(["p2panda", "documents", "blob", lacking, "--dir", str(tmp_path / "peer")]) == 1
    answer = capsys.readouterr()
    assert answer.out == "cu" and "p2panda.blob.incomplete" in answer.err


def test_what_is_not_there_is_said(culm: Culm, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = ("--dir", str(tmp_path / "peer"))
    created = publish(culm, "create", "name=Reed", schema=f"venue_0020{'ab' * 32}")
    for words, status, text in (
        (("show", "0020ff"), 2, "DOCUMENT_ID"),
        (("blob", "0020ff"), 2, "DOCUMENT_ID"),
        (("show", f"0020{'ff' * 32}"), 1, "documents list"),
        (("show", "nonsense"), 2, "DOCUMENT_ID"),
        (("show", created, "--view", "0020"), 2, "--view"),
        (("show", created, "--view", f"0020{'00' * 32}"), 1, "culm p2panda peer sync"),
        (("blob", created), 1, "blob_v1"),
        (("list", "--bootstrap", "127.0.0.1:1"), 2, "--bootstrap"),
    ):
        assert run(["p2panda", "documents", *words, *folder]) == status
        assert text in capsys.readouterr().err
    assert run(["p2panda", "documents", "list", "--dir", str(tmp_path / "nobody")]) == 1
    assert f"culm p2panda peer init --dir {tmp_path / 'nobody'}" in capsys.readouterr().err
    assert not (tmp_path / "nobody").exists()
