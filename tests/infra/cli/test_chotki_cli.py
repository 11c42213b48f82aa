"""`culm chotki` on the real broker: what one command writes, another shows once the job has merged it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.rdx.classes import HASH_INDEX, ClassField, write_class
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.sync.progress import Progress
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import (
    OpenSyncItem,
    PacketRecord,
    RecordOrigin,
    SessionRecord,
    SourceRecord,
    VectorRecord,
    session_key,
    source_key,
)
from tests.support.chotki.bridge import chotki_settings
from tests.support.chotki.shell import Shell
from tests.support.kafka.topic_io import produce

pytestmark = pytest.mark.kafka

Capture = pytest.CaptureFixture[str]
PAGE = (Path(__file__).parents[3] / "docs" / "chotki.md").read_text()
TIME_MS = 1_763_000_000_000


@pytest.fixture
def shell(kafka_bootstrap: str, topic_prefix: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(chotki_settings(kafka_bootstrap, topic_prefix), capsys)


def person(shell: Shell) -> None:
    shell.text("class", "person", "Name:S", "Age:I", "Visits:N", "Tags:E", "--source", "10", "--owner", "me")
    shell.text("new", "person", "Name=Ann", "Age=42", "Tags={a,b}", "--name", "ann", "--owner", "me")
    shell.job.run()


def test_an_object_is_made_changed_and_shown(shell: Shell) -> None:
    assert shell.text("class", "person", "Name:S", "Age:I", "--source", "a", "--owner", "me") == "a-1\n"
    (made,) = shell.lines("new", "person", "Name=Ann", "--name", "ann", "--owner", "me")
    assert made == {"id": "a-3", "source": "a"}
    shell.job.run()
    assert shell.lines("get", "ann") == [
        {
            "id": "a-3",
            "class": "a-1",
            "class_names": ["person"],
            "names": ["ann"],
            "fields": {"Name": "Ann", "Age": 0},
            "types": {"Name": "S", "Age": "I"},
        }
    ]
    shell.text("edit", "ann", "Age=43", "--owner", "me")
    assert shell.text("edit", "ann", "Age=43", "--owner", "me") == ""
    shell.job.run()
    assert shell.lines("get", "a-3")[0]["fields"] == {"Name": "Ann", "Age": 43}
    assert "Ann" in shell.text("get", "ann")
    assert "ann" in shell.text("get", "--class", "person")


def test_objects_are_exported_and_exported_on(shell: Shell, tmp_path: Path) -> None:
    person(shell)
    folder, state = tmp_path / "objects", tmp_path / "state"
    arguments = ("export", "--output", str(folder), "--state-dir", str(state), "--class", "person")
    (done,) = shell.lines(*arguments)
    assert done == {"class": "10-1", "folder": str(folder / "person"), "rows": 1, "whole": True, "epoch": 1}
    shell.text("edit", "ann", "Age=43", "--owner", "me")
    shell.text("new", "person", "Name=Ben", "--owner", "me")
    shell.job.run()
    (done,) = shell.lines(*arguments)
    assert (done["rows"], done["whole"], done["epoch"]) == (2, False, 2)
    assert "person" in shell.text("export", "--output", str(folder))
    files = sorted(path.relative_to(folder / "person") for path in (folder / "person").rglob("*.parquet"))
    assert [str(file) for file in files] == ["epoch=1/part-00000.parquet", "epoch=2/part-00000.parquet"]
    (ann, ben) = pq.read_table(folder / "person" / "epoch=2").to_pylist()
    assert (ann["_id"], ann["Age"], ben["Name"], ben["Tags"]) == (
        "10-3",
        43,
        "Ben",
        {"present": [], "removed": []},
    )


def test_every_edit_is_a_delta_on_the_one_before(shell: Shell) -> None:
    person(shell)
    shell.text("edit", "ann", "Visits+=2", "Tags={b,c}", "--owner", "me")
    shell.text("edit", "ann", "Visits+=3", "--name", "anna", "--owner", "me")
    shell.job.run()
    (row,) = shell.lines("get", "--class", "person")
    assert row["fields"] == {"Name": "Ann", "Age": 42, "Visits": 5, "Tags": ["b", "c"]}
    assert (row["removed"], row["names"]) == ({"Tags": ["a"]}, ["ann", "anna"])


def test_a_class_gets_more_fields_and_other_names_for_them(shell: Shell) -> None:
    person(shell)
    shell.text("class", "person", "Mail:S", "--rename", "Name=Title", "--owner", "me")
    shell.job.run()
    (row,) = shell.lines("class", "person")
    assert [(field["name"], field["type"], field["number"]) for field in row["fields"]] == [
        ("Title", "S", 1),
        ("Age", "I", 2),
        ("Visits", "N", 3),
        ("Tags", "E", 4),
        ("Mail", "S", 5),
    ]
    assert shell.lines("get", "ann")[0]["fields"]["Mail"] is None
    assert "person" in shell.text("class")
    assert "Mail" in shell.text("class", "person")


def test_refusals_say_what_is_wrong(shell: Shell) -> None:
    person(shell)
    me = ("--owner", "me")
    for arguments, code in (
        (("new", "nobody", *me), "chotki.name_unknown"),
        (("new", "person", "Nme=x", *me), "chotki.field_unknown"),
        (("new", "person", "Age=x", *me), "chotki.rdx.text"),
        (("class", "person", "Name:X", *me), "chotki.class"),
        (("class", "person", "--rename", "Name=Alias", *me), "chotki.class"),
        (("edit", "ann", "Age+=1", *me), "chotki.value_type"),
        (("new", "person", "--source", "10", "--owner", "you"), "chotki.source_taken"),
        (("get", "nobody"), "chotki.name_unknown"),
        (("get", "a-99"), "chotki.object_unknown"),
    ):
        assert code in shell.error(*arguments), arguments
    for wrong in (["new", "person", "Age"], ["new", "person", "--source", "x"], ["class", "p", "Name"]):
        assert shell.culm(*wrong) == 2


def test_a_dump_is_the_store_in_the_text_of_the_go_replica(shell: Shell) -> None:
    person(shell)
    text = shell.text("dump")
    assert '10-3-1.S:\t"Ann"\n' in text
    assert text.endswith("\n") and "0-0  ->  0-3," in text
    rows = shell.lines("dump")
    assert {row["key"]: row["value"] for row in rows} == {
        key.hex(): value.hex() for key, value in shell.job.job.values().items()
    }


def test_the_status_has_vectors_blocks_peers_sessions_and_sources(shell: Shell) -> None:
    person(shell)
    vector = write_vector({0: Id.make(0, 3).pro, 16: Id.make(16, 1).pro})
    produce(shell.settings, "chotki.vectors", [(source_key(11), VectorRecord(vector, 0, TIME_MS).encode())])
    edge, trace = bytes(range(32)), bytes(10)
    too_large = "field b-1-2 E, written by b, would have 2 bytes"
    for session, state, code, reason in (
        (1, "SendLive", "chotki.record_size", too_large),
        (1, "SendNone", "chotki.record_size", "chotki.record_size"),
        (2, "SendLive", "", ""),
    ):
        session_record = SessionRecord(
            *(state, 11, "127.0.0.1:4", 7, trace, b"\1" * 10, 20, 30),
            *(
                Progress(1, 2, 2_000, 0),
                Progress(1, 1, 30, 30),
                (OpenSyncItem(11, 4096, 1_500, 2_000),),
                3,
                2,
            ),
            *(reason, code, TIME_MS),
        )
        produce(shell.settings, "chotki.sessions", [(session_key(edge, session), session_record.encode())])
    in_use = SourceRecord("north", b"1" * 16, "allocated", TIME_MS)
    produce(shell.settings, "chotki.sources", [(source_key(12), in_use.encode())])
    (status,) = shell.lines("status")
    assert status["epoch"] == 1
    assert status["vector"][0] == "0-3"
    assert [block["block"] for block in status["blocks"]] == ["0-0", "10-0"]
    assert status["blocks"][1]["objects"] == 3
    (peer,) = status["peers"]
    assert (peer["source"], peer["behind"], peer["sources"], peer["lag"]) == ("b", 3, 1, {"10": 3})
    (session,) = status["sessions"]
    assert (session["session"], session["state"]) == (2, "SendLive")
    assert session["traces"] == f"{'01' * 10}-{'00' * 10}"
    assert session["received"] == {"blocks_done": 1, "blocks_total": 2, "bytes_done": 2_000, "bytes_total": 0}
    assert session["open_syncs"] == [{"t": "b-1", "age_ms": 1_500, "bytes": 2_000}]
    assert (session["pings"], session["pongs"]) == (3, 2)
    assert status["codes"] == {"chotki.record_size": 1}
    [warning] = status["warnings"]
    assert (warning["code"], warning["text"], warning["peer"]) == ("chotki.record_size", too_large, "b")
    assert too_large in " ".join(shell.text("status").split())
    assert status["epoch_age_s"] >= 0
    assert [(source["source"], source["state"]) for source in status["sources"]] == [
        ("c", "in use"),
        ("10", "allocated"),
    ]
    assert len(shell.lines("status", "--all")[0]["sessions"]) == 2
    assert "SendLive" in shell.text("status")
    # The edge was killed and has begun anew: nobody told that its session is over.
    for run, shown in ((edge[24:], 1), (b"2" * 8, 0)):
        claim = SourceRecord(edge.hex(), run.ljust(16, b"."), "allocated", TIME_MS)
        produce(shell.settings, "chotki.sources", [(source_key(13), claim.encode())])
        assert len(shell.lines("status")[0]["sessions"]) == shown
        left = shell.lines("status", "--all")[0]["sessions"][-1]
        assert (left["state"], left["run_is_over"]) == ("SendLive", not shown)
        free = SourceRecord(edge.hex(), bytes(16), "allocated", TIME_MS)
        produce(shell.settings, "chotki.sources", [(source_key(13), free.encode())])
    assert "run is over" in " ".join(shell.text("status", "--all").split())


def test_values_that_a_go_replica_would_refuse_are_listed(shell: Shell) -> None:
    entries = write_class([ClassField(1, "S", "Mail", HASH_INDEX)])
    mail = record("S", write_first(0, 0, b"a@b"))
    class_id, first, second = (Id.make(0xA, seq) for seq in (1, 2, 3))
    packets = [write_live("C", class_id, Id(0, 0), entries)]
    packets += [write_live("O", id, class_id, mail) for id in (first, second)]
    values = [PacketRecord(RecordOrigin(bytes(32), 0, 0), 0, packet).encode() for packet in packets]
    produce(shell.settings, "chotki.packets", [(source_key(0xA), value) for value in values])
    shell.job.run()
    (status,) = shell.lines("status")
    assert status["duplicates"] == [
        {
            "class": "a-1",
            "field": 1,
            "value": '"a@b"',
            "objects": [{"id": "a-2", "writer": "a"}, {"id": "a-3", "writer": "a"}],
        }
    ]
    assert "a-2 (written by a), a-3 (written by a)" in " ".join(shell.text("status").split())
    shell.text("edit", "a-3", "Mail=c@d", "--owner", "me")
    shell.job.run()
    assert shell.lines("status")[0]["duplicates"] == []


def test_a_source_is_retired_for_ever(shell: Shell) -> None:
    person(shell)
    assert [(source["source"], source["owner"], source["state"]) for source in shell.lines("sources")] == [
        ("10", "me", "allocated")
    ]
    assert "me" in shell.text("sources")
    produce(
        shell.settings,
        "chotki.sources",
        [(source_key(0x10), SourceRecord("me", b"1" * 16, "allocated", TIME_MS).encode())],
    )
    assert "chotki.source_taken" in shell.error("retire", "10")
    (retired,) = shell.lines("retire", "10", "--in-use")
    assert (retired["source"], retired["state"]) == ("10", "retired")
    assert "chotki.source_retired" in shell.error("retire", "10")
    assert "chotki.source_unknown" in shell.error("retire", "77")
    assert "chotki.source_retired" in shell.error("new", "person", "--source", "10", "--owner", "me")
    (made,) = shell.lines("new", "person", "Name=Ben", "--owner", "me")
    assert made["source"] != "10"


def test_before_the_first_epoch_there_are_the_common_objects(shell: Shell) -> None:
    assert shell.text("dump").splitlines()[0] == "0-0.Y:\t0-0"
    assert shell.lines("status")[0]["vector"] == ["0-3"]
    assert [row["id"] for row in shell.lines("get")] == ["0-0", "0-2"]


def test_what_the_page_says_can_be_typed(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what needs a replica or an edge that listens."""
    monkeypatch.chdir(tmp_path)
    block = PAGE.split("## On the command line")[1].split("```sh\n")[1].split("```")[0]
    lines = [line.partition(" #")[0] for line in block.splitlines()]
    typed = [
        line.partition(" > ")[0].strip()
        for line in lines
        if "example" not in line and "--metrics-of" not in line
    ]
    assert len(typed) > 8
    for line in typed:
        assert shell.culm(*shlex.split(line)[2:]) == 0, line
        shell.job.run()
    assert shell.lines("get", "ann")[0]["fields"] == {
        "Title": "Ann",
        "Age": 43,
        "Visits": 1,
        "Tags": ["a", "b"],
    }
