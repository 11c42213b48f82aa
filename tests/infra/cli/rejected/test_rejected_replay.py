"""`culm rejected replay` on the real broker: records come back to their topic, or a sentence says why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_streaming.sds.step import Row, Source
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import RejectedRecord, rejection
from culm_topics.sds.records import SdsCommandRecord
from tests.support.kafka.topic_io import end_offsets, expire, produce, read_records, write_records
from tests.support.sds.shards import Shard, events, refusals
from tests.support.sds.topics import sds_settings

pytestmark = pytest.mark.kafka

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return sds_settings(kafka_bootstrap, topic_prefix, "rejected", "sds.commands", "entries")


def culm(settings: KafkaSettings, *arguments: str) -> int:
    return run(["rejected", *arguments, "--bootstrap", settings.bootstrap, "--prefix", settings.prefix])


def printed(capsys: Capture) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refuse(settings: KafkaSettings, *records: RejectedRecord) -> None:
    produce(settings, "rejected", [(b"", record.encode()) for record in records])


def from_entries(settings: KafkaSettings, partition: int, offset: int, **more: Any) -> RejectedRecord:
    source = (settings.topic("entries"), partition, offset)
    return rejection("coverage.full", "too much", source=source, **more)


def command(kind: Any, token: int) -> SdsCommandRecord:
    return SdsCommandRecord(kind, "spec", "ann", token.to_bytes(16, "big"), b"hello", None, {}, None)


class Job:
    """One shard of the job `sds`, which reads `sds.commands` and writes `rejected`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._shard = Shard()
        self._read = 0

    def batch(self) -> tuple[list[str], list[str]]:
        """Take the new commands. Returns the codes of refusals, and the kinds of events."""
        commands = read_records(self._settings, "sds.commands")
        for offset in range(self._read, len(commands)):
            partition, key, value = commands[offset]
            self._shard.rows.append(Row(self._shard.now_ms, Source.COMMANDS, partition, offset, key, value))
        self._read = len(commands)
        records = self._shard.batch()
        refused = refusals(records)
        refuse(
            self._settings,
            *(
                rejection(
                    record.code,
                    record.detail,
                    source=(self._settings.topic("sds.commands"), *(record.source or ("", 0, 0))[1:]),
                )
                for record in refused
            ),
        )
        return [record.code for record in refused], [event.kind for event in events(records)]


def test_a_command_that_lacked_its_channel_is_accepted_when_it_comes_again(
    settings: KafkaSettings, capsys: Capture
) -> None:
    job = Job(settings)
    write_records(settings, "sds.commands", [(1, b"c", command("send", 1).encode())])
    assert job.batch() == (["sds.channel.unknown"], [])
    write_records(settings, "sds.commands", [(1, b"c", command("join", 2).encode())])
    assert job.batch() == ([], ["joined"])
    assert culm(settings, "replay", "0:0") == 0
    talk = capsys.readouterr()
    assert "would produce" in talk.out
    assert "1 record would be produced" in talk.err
    assert "next: the same command with --apply" in talk.err
    assert job.batch() == ([], []), "a dry run produces nothing"
    assert culm(settings, "replay", "0:0", "--apply") == 0
    talk = capsys.readouterr()
    assert "partition 1, offset 2" in talk.out
    assert "1 record produced" in talk.err
    assert job.batch() == ([], ["sent"])


def test_a_record_comes_back_with_its_key_and_value_into_its_partition(
    settings: KafkaSettings, capsys: Capture
) -> None:
    write_records(settings, "entries", [(2, b"key", b"value"), (0, None, b"without a key")])
    refuse(settings, from_entries(settings, 2, 0, entry=b"value"), from_entries(settings, 0, 0))
    assert culm(settings, "replay", "0:0", "0:1", "--apply", "--json") == 0
    rows = printed(capsys)
    assert sorted((row["outcome"], row["source"]["partition"], row["produced_offset"]) for row in rows) == [
        ("produced", 0, 1),
        ("produced", 2, 1),
    ]
    assert read_records(settings, "entries") == [
        (0, None, b"without a key"),
        (0, None, b"without a key"),
        (2, b"key", b"value"),
        (2, b"key", b"value"),
    ]


def test_records_are_selected_by_code_and_equal_ones_are_produced_once(
    settings: KafkaSettings, capsys: Capture
) -> None:
    write_records(settings, "entries", [(0, b"k", b"twice"), (0, b"k", b"twice"), (0, b"k", b"other")])
    refuse(
        settings,
        from_entries(settings, 0, 0),
        from_entries(settings, 0, 0),
        from_entries(settings, 0, 1),
        rejection("bamboo.fork", "another code", source=(settings.topic("entries"), 0, 2)),
    )
    assert culm(settings, "replay", "--code", "coverage", "--json") == 0
    assert [(row["outcome"], row["source"]["offset"]) for row in printed(capsys)] == [
        ("ready", 0),
        ("copy", 1),
    ]
    assert end_offsets(settings, "entries")[0] == 3
    assert culm(settings, "replay", "--code", "coverage", "--apply") == 0
    assert "1 record produced; 1 left out as copies" in capsys.readouterr().err
    assert read_records(settings, "entries")[3:] == [(0, b"k", b"twice")]
    refuse(settings, from_entries(settings, 0, 3))
    assert culm(settings, "replay", "--code", "coverage.full", "--apply") == 0
    assert "1 record produced; 2 left out as copies" in capsys.readouterr().err, "copies do not multiply"


def test_what_cannot_be_replayed_is_listed_with_the_reason(settings: KafkaSettings, capsys: Capture) -> None:
    write_records(settings, "entries", [(0, b"k", b"expires")])
    expire(settings, "entries")
    write_records(settings, "entries", [(0, b"k", b"another record"), (0, b"k", None), (0, b"k", b"kept")])
    refuse(
        settings,
        rejection("dag.schema", "from a peer", entry=b"x"),
        rejection("coverage.full", "from elsewhere", source=("strange.entries", 0, 0)),
        from_entries(settings, 0, 0),
        from_entries(settings, 0, 1, entry=b"not these bytes"),
        from_entries(settings, 0, 2),
        from_entries(settings, 0, 3, entry=b"kept"),
        from_entries(settings, 0, 77),
    )
    assert culm(settings, "replay", *(f"0:{number}" for number in range(7)), "--apply") == 3
    talk = capsys.readouterr()
    lines = {line.split()[0]: line for line in talk.out.splitlines()}
    assert "the topic of its origin is not known" in lines["0:0"]
    assert "the peer has to send it again" in lines["0:0"]
    assert "strange.entries, its origin, is not a topic of this deployment" in lines["0:1"]
    assert "retention has removed offset 0" in lines["0:2"]
    assert "is another record: the topic was created again since" in lines["0:3"]
    assert "it has no value" in lines["0:4"]
    assert "produced 5 bytes" in lines["0:5"]
    assert "the partition ends at 4" in lines["0:6"]
    assert "1 record produced; 6 cannot be replayed" in talk.err


def test_nothing_to_replay_is_said(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "replay", "--code", "bamboo") == 0
    assert "nothing to replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("replay", "select them with --code"),
        ("replay --from 1h", "select them with --code"),
        ("replay 0:1 --code bamboo", "either records or options"),
        ("replay 0:1 --from 1h", "either records or options"),
        ("replay 17", "not PARTITION:OFFSET"),
    ],
)
def test_records_are_named_or_selected(
    settings: KafkaSettings, arguments: str, words: str, capsys: Capture
) -> None:
    assert culm(settings, *arguments.split()) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
