"""`culm p2panda documents` of a deployment: what is in the topic `documents`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import write_records
from tests.support.p2panda.document_records import ANN, BEN, MAX_VALUE_BYTES, DocumentStory, id_of

pytestmark = pytest.mark.kafka

Culm = Callable[..., list[Any]]
LONG = "y" * MAX_VALUE_BYTES


@pytest.fixture
def ids(kafka: KafkaSettings) -> dict[str, str]:
    """A venue that was changed, one whose operator is not here, and a blob whose last piece is not here."""
    story = DocumentStory()
    schema, _ = story.define("venue", {"name": "str", "seats": "int", "operator": "relation(blob_v1)"})
    piece = story.create("blob_piece_v1", data=b"x" * MAX_VALUE_BYTES)
    blob = story.create("blob_v1", length=MAX_VALUE_BYTES, mime_type="text/plain", pieces=((piece,),))
    lacking = story.create(
        "blob_v1", length=2_000, mime_type="text/plain", pieces=((piece,), (id_of("lost"),))
    )
    reed = story.create(schema, name="The Reed", seats=40, operator=blob)
    middle = story.update(reed, BEN, seats=41)
    story.update(middle, seats=42)
    hall = story.create(schema, BEN, name=LONG, seats=1, operator=id_of("nobody"))
    write_records(kafka, "logs", story.logs)
    write_records(kafka, "documents", [(0, b"\x00", b"\xff"), *story.records()])
    named = {"blob": blob, "lacking": lacking, "reed": reed, "middle": middle, "hall": hall}
    return {name: document_id.hex() for name, document_id in named.items()}


@pytest.fixture
def culm(kafka: KafkaSettings, capsys: pytest.CaptureFixture[str]) -> Culm:
    def command(*words: str, status: int = 0) -> list[Any]:
        where = ("--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix)
        assert run(["p2panda", "documents", *words, *where, "--json"]) == status
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return command


def test_documents_of_a_deployment_are_listed_shown_and_followed(
    ids: dict[str, str],
    culm: Culm,
    kafka: KafkaSettings,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    *rows, problem = culm("list", "--schema", "venue")
    by_id = {row["document_id"]: row for row in rows}
    assert by_id.keys() == {ids["reed"], ids["hall"]}
    assert by_id[ids["reed"]]["fields"]["seats"] == by_id[ids["reed"]]["fields"]["seats"] | {
        "type": "int",
        "value": 42,
    }
    hall = by_id[ids["hall"]]
    assert hall["fields"]["name"]["value"] is None and "in_logs" in hall["fields"]["name"]
    assert hall["problems"]["operator"]["code"] == "p2panda.document.relation_missing"
    assert (problem["problem"], problem["records"]) == ("topics.record", 1)
    (row, _) = culm("list", "--author", BEN.hex())
    assert row["document_id"] == ids["hall"]

    (row,) = culm("show", ids["reed"])
    assert row["operations"] == 3 and row["owner"] == ANN.hex()
    (row,) = culm("show", ids["hall"], status=3)
    assert row["fields"]["name"]["value"] == LONG, "it is read from `logs`"
    (row,) = culm("show", ids["lacking"])
    assert row["unchecked"] == ["pieces"]
    (row,) = culm("show", ids["reed"], "--view", ids["middle"])
    assert row["fields"]["seats"]["value"] == 41
    culm("show", ids["reed"], "--view", id_of("nowhere").hex(), status=1)
    culm("show", id_of("nobody").hex(), status=1)

    changes = culm("watch", "--schema", "venue", "--count", "2")
    assert {change["document_id"] for change in changes[:2]} == by_id.keys()
    assert changes[0]["document"] == by_id[changes[0]["document_id"]]
    (row,) = culm("blob", ids["blob"], "--output", str(tmp_path / "blob"))
    assert (tmp_path / "blob").read_bytes() == b"x" * MAX_VALUE_BYTES and row["bytes"] == MAX_VALUE_BYTES
    culm("blob", ids["lacking"], "--output", str(tmp_path / "lacking"), status=1)
    assert not (tmp_path / "lacking").exists()

    where = ("--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix)
    assert run(["p2panda", "documents", "list", *where]) == 0
    shown = capsys.readouterr()
    assert "next: culm p2panda documents show" in shown.err and "--bootstrap" in shown.err
    assert run(["p2panda", "documents", "list", "--schema", "none", *where]) == 0
    shown = capsys.readouterr()
    assert "without --schema and --author" in shown.err and "culm job run documents" in shown.err
    assert run(["p2panda", "documents", "watch", "-n", "2", "--schema", "venue", *where]) == 0
    assert "seats: 42" in capsys.readouterr().out


def test_a_start_by_time_is_refused_before_anything_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["p2panda", "documents", "watch", "--from", "2h"]) == 1
    shown = capsys.readouterr().err
    assert "topics.documents.start_by_time" in shown and "view_at" in shown
    for place in ("17", "0:17", "nowhere"):
        assert run(["p2panda", "documents", "watch", "--from", place]) == 2
    assert "--from" in capsys.readouterr().err
