"""`culm topics` and `culm logs` against a real broker: output, filters and exit statuses."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_infra.protocols import JOBS, NOUNS
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_topics.catalogue import registry
from culm_topics.catalogue.jobs import job_named, jobs_of
from culm_topics.catalogue.registry import CATALOGUE, OWNERS, OWNERS_USED
from culm_topics.catalogue.topics import topics_of
from culm_topics.chotki.catalogue import CHOTKI_JOBS
from culm_topics.dag.catalogue import DAG_JOBS
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.catalogue import LOG_JOBS
from culm_topics.logs.records import FragmentRecord, LogRecord, fragment_key, fragment_partition
from culm_topics.records import log_key
from culm_topics.sds.catalogue import SDS_JOBS
from tests.support.kafka.topic_io import produce, write_records
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def settings(kafka_bootstrap: str) -> KafkaSettings:
    return KafkaSettings(bootstrap=kafka_bootstrap, prefix=f"t{uuid.uuid4().hex[:10]}.", partitions=2)


@pytest.fixture
def replicated(settings: KafkaSettings) -> list[CheckedOperation]:
    """Two logs of two authors and two schemas in `logs`, the first record twice."""
    admin.create(settings)
    entries = [
        *make_log(author("panda"), 0, 3),
        *make_log(author("bear"), 4, 2, schema_id=OTHER_SCHEMA),
    ]
    client = kafka.producer(settings)
    for checked in [entries[0], *entries]:
        record = LogRecord(
            checked.entry.seq_num,
            checked.entry_bytes,
            checked.payload_bytes,
            checked.hash,
            checked.schema_id,
        )
        client.produce(settings.topic("logs"), record.encode(), log_key(*checked.log))
    assert client.flush(30) == 0
    return entries


def culm(settings: KafkaSettings, *arguments: str) -> int:
    return run([*arguments, "--bootstrap", settings.bootstrap, "--prefix", settings.prefix])


def printed(capsys: Capture) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.kafka
def test_topics_are_checked_created_and_listed(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "topics", "check", "--json") == 3
    assert {row["kind"] for row in printed(capsys)} == {"missing"}
    assert culm(settings, "topics", "create", "--partitions", "2", "--json") == 0
    assert {"topic": settings.topic("logs"), "owner": "logs"} in printed(capsys)
    assert culm(settings, "topics", "create", "--json") == 0
    assert printed(capsys) == [], "no line if there is no result"
    assert culm(settings, "topics", "create") == 0
    shown = capsys.readouterr().err
    assert "nothing to create" in shown
    assert "next: culm job run" in shown
    assert culm(settings, "topics", "check", "--partitions", "2") == 0
    assert capsys.readouterr().out == ""
    assert culm(settings, "topics", "check") == 3
    assert f"{settings.topic('logs')}: partitions is 2, the catalogue says 8" in capsys.readouterr().out
    assert culm(settings, "topics", "list", "--json") == 0
    assert all(row["exists"] for row in printed(capsys))
    assert culm(settings, "topics", "list") == 0
    listed = capsys.readouterr()
    assert settings.prefix in listed.err
    lines = listed.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= len(CATALOGUE) + 6
    assert culm(settings, "topics", "list", "--wide", "--protocol", "dag") == 0
    assert "what it holds" in capsys.readouterr().out


@pytest.mark.parametrize("protocol", NOUNS)
def test_the_jobs_of_a_protocol_write_what_they_read_of_each_other(protocol: str) -> None:
    """None of them waits for a topic that only a job outside of these writes."""
    jobs = [job_named(name) for group in JOBS[protocol] for name in jobs_of(group)]
    written = {topic for job in jobs for topic in job.writes}
    by_any_job = {topic for job in registry.JOBS for topic in job.writes}
    assert {topic for job in jobs for topic in job.reads} & by_any_job <= written


@pytest.mark.kafka
def test_a_protocol_selects_the_topics_that_it_uses(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "topics", "create", "--protocol", "sds", "--partitions", "2") == 0
    shown = capsys.readouterr()
    assert f"{settings.topic('sds.in')} (sds)" in shown.out
    assert "next: culm job run sds" in shown.err
    assert culm(settings, "topics", "check", "--protocol", "sds", "--partitions", "2") == 0
    capsys.readouterr()
    assert culm(settings, "topics", "list", "--json") == 0
    rows = printed(capsys)
    assert {row["owner"] for row in rows if row["exists"]} == {"sds", "logs"}
    assert [row["name"] for row in rows if row["exists"] and row["owner"] == "logs"] == ["rejected"]
    both = ("--protocol", "p2panda", "--protocol", "dag")
    assert culm(settings, "topics", "list", *both, "--json") == 0
    assert {row["owner"] for row in printed(capsys)} == {"p2panda", "logs", "dag"}


def test_every_topic_has_one_owner_and_every_job_has_its_topics() -> None:
    assert tuple(topic for topics in OWNERS.values() for topic in topics) == CATALOGUE
    assert OWNERS_USED.keys() == NOUNS.keys()
    for jobs, protocol in (
        (LOG_JOBS, "bamboo"),
        (SDS_JOBS, "sds"),
        (CHOTKI_JOBS, "chotki"),
        (DAG_JOBS, "dag"),
    ):
        names = {topic.name for topic in topics_of([protocol])}
        assert all({*job.reads, *job.writes} <= names for job in jobs), protocol


def test_rights_are_printed_without_a_broker(capsys: Capture) -> None:
    assert run(["topics", "acls", "--program", "consumer", "--json"]) == 0
    assert {row["operation"] for row in printed(capsys)} == {"Read", "Describe"}
    assert run(["topics", "acls"]) == 0
    assert "culm.doctor-" in capsys.readouterr().out
    assert run(["topics", "acls", "--as", "script", "--principal", "consumer=User:me"]) == 0
    shown = capsys.readouterr().out
    assert (
        "\ngrant --allow-principal User:me --operation Read --operation Describe --topic culm.documents"
        in shown
    )
    assert "--allow-principal User:culm-job " in shown


def test_rights_are_printed_as_strimzi_users(capsys: Capture) -> None:
    command = ["topics", "acls", "--program", "consumer", "--as", "strimzi", "--strimzi-cluster", "tides"]
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\n")
    assert '  name: "culm-consumer"\n  labels:\n    strimzi.io/cluster: "tides"\n' in shown
    rules = shown.split("      - resource:\n")[1:]
    assert rules[0] == (
        "          type: topic\n"
        '          name: "culm.documents"\n'
        "          patternType: literal\n"
        "        operations: [Read, Describe]\n"
    )
    assert rules[-1] == (
        "          type: group\n"
        '          name: "culm."\n'
        "          patternType: prefix\n"
        "        operations: [Read]\n"
    )


@pytest.mark.kafka
def test_tail_prints_decoded_entries(
    settings: KafkaSettings, replicated: list[CheckedOperation], capsys: Capture
) -> None:
    begin = ("logs", "tail", "--from", "beginning")
    assert culm(settings, *begin, "--count", "5", "--json") == 0
    rows = printed(capsys)
    assert {row["hash"] for row in rows} == {checked.hash.hex() for checked in replicated}
    first = next(row for row in rows if row["schema_id"] == SCHEMA)
    assert first["action"] == "create"
    assert first["fields"]
    assert "previous" not in first
    assert culm(settings, *begin, "--count", "2", "--schema", OTHER_SCHEMA) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "#1" in lines[0]
    assert "create" in lines[0]
    one_log = f"{author('bear').public_key.hex()}/4"
    assert culm(settings, *begin, "--count", "2", "--log", one_log, "--json") == 0
    assert [row["seq_num"] for row in printed(capsys)] == [1, 2]


@pytest.mark.kafka
def test_bare_logs_and_fragments_are_shown_to_who_asks(
    settings: KafkaSettings, replicated: list[CheckedOperation], tmp_path: Path, capsys: Capture
) -> None:
    import pyarrow.parquet as pq

    key_pair = author("bear")
    entry = sign_entry(key_pair, 9, 1, b"payload", flavour=YAMF)
    later = sign_entry(
        key_pair, 9, 4, b"later", backlink=YAMF.hash(b"3"), skiplink=YAMF.hash(entry), flavour=YAMF
    )
    key = log_key(key_pair.public_key, 9, YAMF)
    produce(settings, "logs", [(key, LogRecord(1, entry, b"payload", YAMF.hash(entry), "").encode())])
    fragment = FragmentRecord(later, YAMF.hash(later)).encode()
    partition = fragment_partition(key, 2)
    write_records(settings, "fragments", [(partition, fragment_key(key, 4), fragment)])
    tail = ("logs", "tail", "--from", "beginning", "--sparse", "--log", f"{key_pair.public_key.hex()}/9")
    assert culm(settings, *tail, "--count", "2", "--json") == 0
    rows = printed(capsys)
    assert [(row["seq_num"], row["sparse"], row["inline"], row["flavour"]) for row in rows] == [
        (1, False, True, "yamf"),
        (4, True, False, "yamf"),
    ]
    assert culm(settings, *tail, "--count", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "payload of 7 bytes" in lines[0]
    assert "with gaps before it, payload of 5 bytes, not beside it" in lines[1]
    for option, entries in (("--bare", 6), ("--sparse", 7)):
        assert culm(settings, "logs", "export", "--output", str(tmp_path / "all.parquet"), option) == 0
        exported = pq.read_table(tmp_path / "all.parquet").to_pylist()
        assert len(exported) == entries
        assert {(row["seq_num"], row["sparse"], row["inline"]) for row in exported if row["log_id"] == 9} == {
            (1, False, True),
            (4, True, False),
        } - ({(4, True, False)} if entries == 6 else set())
        assert {len(row["hash"]) for row in exported} == {34, 66}
    assert culm(settings, "logs", "export", "--output", "-", "--bare") == 0
    assert [row["flavour"] for row in printed(capsys) if not row["schema_id"]] == ["yamf"]
    assert culm(settings, "logs", "list", "--bare", "--json") == 0
    assert (9, 1, "", "yamf") in {
        (row["log_id"], row["height"], row["schema_id"], row["flavour"]) for row in printed(capsys)
    }
    assert culm(settings, "logs", "list", "--json") == 0
    assert 9 not in {row["log_id"] for row in printed(capsys)}


@pytest.mark.kafka
def test_list_shows_every_log_with_its_height(
    settings: KafkaSettings, replicated: list[CheckedOperation], capsys: Capture
) -> None:
    assert culm(settings, "logs", "list", "--json") == 0
    assert {(row["log_id"], row["height"], row["schema_id"]) for row in printed(capsys)} == {
        (0, 3, SCHEMA),
        (4, 2, OTHER_SCHEMA),
    }
    assert culm(settings, "logs", "list", "--author", author("bear").public_key.hex()) == 0
    shown = capsys.readouterr().out
    assert author("bear").public_key.hex()[:20] in shown
    assert author("panda").public_key.hex()[:20] not in shown


@pytest.mark.kafka
def test_export_writes_json_lines_and_parquet(
    settings: KafkaSettings, replicated: list[CheckedOperation], tmp_path: Path, capsys: Capture
) -> None:
    import pyarrow.parquet as pq

    for name in ("out.jsonl", "out.parquet"):
        assert culm(settings, "logs", "export", "--output", str(tmp_path / name)) == 0
        assert "5 entries" in capsys.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    entries = {checked.entry_bytes for checked in replicated}
    assert {bytes.fromhex(line["entry"]) for line in lines} == {row["entry"] for row in rows} == entries
    assert {row["action"] for row in rows} == {"create", "update"}
    assert all(json.loads(row["fields"]) for row in rows)
    assert [row["seq_num"] for row in rows if row["log_id"] == 0] == [1, 2, 3]
    assert {path.name for path in tmp_path.iterdir()} == {"out.jsonl", "out.parquet"}
    assert culm(settings, "logs", "export", "--output", "-", "--schema", SCHEMA) == 0
    assert len(printed(capsys)) == 3


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("logs", "tail", "--author", "abc"), 2),
        (("logs", "tail", "--log", "ab/x"), 2),
        (("logs", "tail", "--log", "4"), 2),
        (("logs", "tail", "--from", "middle"), 2),
        (("topics", "acls", "--program", "stranger"), 2),
        (("topics", "acls", "--principal", "stranger=User:me"), 2),
        (("topics", "acls", "--principal", "consumer"), 2),
        (("topics", "check", "--kafka-option", "sasl.password=x"), 2),
    ],
)
def test_wrong_usage_is_told_apart(arguments: tuple[str, ...], status: int, capsys: Capture) -> None:
    assert run(list(arguments)) == status
    assert capsys.readouterr().err


@pytest.mark.kafka
def test_an_export_that_fails_leaves_no_file(
    settings: KafkaSettings, tmp_path: Path, capsys: Capture
) -> None:
    assert culm(settings, "logs", "export", "--output", str(tmp_path / "out.jsonl")) == 1
    assert "topics.missing" in capsys.readouterr().err
    admin.create(settings)
    assert culm(settings, "logs", "export", "--output", str(tmp_path / "out.csv")) == 1
    assert "extension" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
