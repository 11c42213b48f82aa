"""`culm rejected tail` and `show` on the real broker."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import RejectedRecord, log_key, rejection
from culm_topics.sds.records import SdsCommandRecord
from tests.support.kafka.topic_io import expire, produce
from tests.support.p2panda.logs import author, make_log
from tests.support.process.groups import child
from tests.support.sds.topics import sds_settings

pytestmark = pytest.mark.kafka

Capture = pytest.CaptureFixture[str]
ANN, BEN = bytes(32), bytes(range(32))
HOSTILE = "\x1b[31m[bold]red[/bold]\u202e\n:smile:"
(CHECKED,) = make_log(author("panda"), 7, 1)
LOG = log_key(*CHECKED.log)


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return sds_settings(kafka_bootstrap, topic_prefix, "rejected")


@pytest.fixture
def refused(settings: KafkaSettings) -> list[RejectedRecord]:
    """Records of three protocols, the last one with hostile text, and a malformed one."""
    command = SdsCommandRecord("send", "spec", "ann", bytes(16), b"hello", None, {}, None)
    records = [
        rejection(
            "bamboo.signature",
            "the signature does not verify",
            entry=CHECKED.entry_bytes,
            operation=CHECKED.payload_bytes,
            brought_by=ANN,
            source=(settings.topic("entries"), 1, 5),
            seq_num=1,
        ),
        rejection(
            "sds.channel.unknown",
            "no such channel",
            entry=command.encode(),
            brought_by=BEN,
            source=(settings.topic("sds.commands"), 2, 9),
        ),
        rejection("dag.schema", "a node that breaks a rule", entry=b"\xa1", brought_by=ANN),
        rejection("topics.record", HOSTILE, entry=b"\xff", source=(settings.topic("chotki.packets"), 0, 1)),
    ]
    keys = [LOG, b"", b"", b""]
    produce(settings, "rejected", [(key, record.encode()) for key, record in zip(keys, records, strict=True)])
    produce(settings, "rejected", [(b"", b"junk")])
    return records


def culm(settings: KafkaSettings, *arguments: str) -> int:
    return run(["rejected", *arguments, "--bootstrap", settings.bootstrap, "--prefix", settings.prefix])


def printed(capsys: Capture) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        ("", [0, 1, 2, 3]),
        ("--code bamboo.signature", [0]),
        ("--code bamboo --code dag.schema", [0, 2]),
        ("--code bamboo.sign", []),
        ("--topic entries", [0]),
        ("--topic sds.commands --topic chotki.packets", [1, 3]),
        ("--protocol logs", [0]),
        ("--protocol dag --protocol sds", [1, 2]),
        ("--protocol chotki", [3]),
        (f"--peer {ANN.hex()}", [0, 2]),
        (f"--peer {ANN.hex()} --protocol dag", [2]),
        ("--from 2", [2, 3]),
        ("--from 0:3", [3]),
        ("--from 1h", [0, 1, 2, 3]),
        ("--from now", []),
        ("--from 1 --count 2", [1, 2]),
    ],
)
def test_each_option_selects(
    settings: KafkaSettings,
    refused: list[RejectedRecord],
    arguments: str,
    offsets: list[int],
    capsys: Capture,
) -> None:
    assert culm(settings, "tail", "--json", *arguments.split()) == 0
    rows = [row for row in printed(capsys) if "problem" not in row]
    assert [row["offset"] for row in rows] == offsets
    assert [(row["code"], row["detail"]) for row in rows] == [
        (refused[offset].code, refused[offset].detail) for offset in offsets
    ]


def test_a_row_says_where_the_data_comes_from(
    settings: KafkaSettings, refused: list[RejectedRecord], capsys: Capture
) -> None:
    assert culm(settings, "tail", "--json") == 0
    first, *others, problem = printed(capsys)
    assert first.pop("timestamp_ms") > 0
    assert first == {
        "partition": 0,
        "offset": 0,
        "code": "bamboo.signature",
        "protocol": "logs",
        "topic": "entries",
        "source": {"topic": settings.topic("entries"), "partition": 1, "offset": 5},
        "peer": ANN.hex(),
        "key": LOG.hex(),
        "seq_num": 1,
        "detail": "the signature does not verify",
        "entry_bytes": len(CHECKED.entry_bytes),
        "operation_bytes": len(CHECKED.payload_bytes),
        "first_bytes": None,
    }
    assert [(row["protocol"], row["topic"]) for row in others] == [
        ("sds", "sds.commands"),
        ("dag", None),
        ("chotki", "chotki.packets"),
    ]
    assert (problem["topic"], problem["records"]) == ("rejected", 1)


def test_hostile_text_is_escaped(
    settings: KafkaSettings, refused: list[RejectedRecord], capsys: Capture
) -> None:
    assert culm(settings, "tail") == 0
    talk = capsys.readouterr()
    lines = talk.out.splitlines()
    assert len(lines) == len(refused)
    assert lines[3].endswith("�[31m[bold]red[/bold]��:smile:")
    assert "1 records of `rejected` were skipped" in talk.err
    assert "next: culm rejected show 0:3" in talk.err
    assert culm(settings, "show", "0:3") == 0
    shown = capsys.readouterr().out
    assert "�[31m[bold]red[/bold]��:smile:" in shown
    assert "\x1b" not in shown


def test_an_empty_topic_is_said_to_be_empty(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "tail") == 0
    talk = capsys.readouterr()
    assert (talk.out, talk.err.strip()) == ("", "nothing was refused")
    assert culm(settings, "tail", "--code", "bamboo") == 0
    assert "no refused data matches" in capsys.readouterr().err
    assert culm(settings, "tail", "--json") == 0
    talk = capsys.readouterr()
    assert (talk.out, talk.err) == ("", "")


def test_what_is_refused_later_follows_until_an_interrupt(
    settings: KafkaSettings, refused: list[RejectedRecord]
) -> None:
    arguments = ["rejected", "tail", "--follow", "--from", "3", "--json"]
    arguments += ["--bootstrap", settings.bootstrap, "--prefix", settings.prefix]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with child([sys.executable, "-m", "culm_infra", *arguments], env=environment) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())["offset"] == 3
        produce(settings, "rejected", [(b"", rejection("dag.hash", "another hash").encode())])
        assert json.loads(program.stdout.readline())["code"] == "dag.hash"
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 130


def test_a_record_is_shown_whole_with_its_decoded_form(
    settings: KafkaSettings, refused: list[RejectedRecord], capsys: Capture
) -> None:
    assert culm(settings, "show", "0:0", "--json") == 0
    (row,) = printed(capsys)
    assert (row["entry"], row["operation"]) == (CHECKED.entry_bytes.hex(), CHECKED.payload_bytes.hex())
    decoded = row["decoded"]
    assert decoded["entry"]["bamboo.entry.decode"]["seq_num"] == 1
    assert decoded["operation"]["p2panda.operation.decode"]["action"] == "create"
    assert culm(settings, "show", "0:1", "--json") == 0
    (row,) = printed(capsys)
    assert row["decoded"]["entry"]["SdsCommandRecord"]["participant_id"] == "ann"
    assert culm(settings, "show", "0:3", "--json") == 0
    (row,) = printed(capsys)
    assert (row["entry"], row["operation"], row["decoded"]) == ("ff", None, {})
    assert culm(settings, "show", "0:0") == 0
    shown = capsys.readouterr().out
    assert f"log        {CHECKED.log[0].hex()}/7 (yasmf)" in shown
    assert CHECKED.entry_bytes.hex() in shown
    assert "entry as bamboo.entry.decode:" in shown


def test_a_record_that_is_not_there_is_said_to_be_gone_or_not_there(
    settings: KafkaSettings, refused: list[RejectedRecord], capsys: Capture
) -> None:
    assert culm(settings, "show", "0:99") == 1
    assert "the partition ends at 5" in capsys.readouterr().err
    assert culm(settings, "show", "4:0") == 1
    assert "the topic has 1 partitions" in capsys.readouterr().err
    assert culm(settings, "show", "0:4") == 1
    assert "topics.record" in capsys.readouterr().err
    expire(settings, "rejected")
    assert culm(settings, "show", "0:0") == 1
    talk = capsys.readouterr().err
    assert "retention has removed offset 0 of" in talk
    assert "culm rejected tail" in talk


@pytest.mark.parametrize(
    "arguments",
    [
        *("show 17", "show x", "show", "tail --topic nothing", "tail --protocol smoke"),
        *("tail --peer abc", "tail --code .", "tail --from 12x", "tail --count 0"),
    ],
)
def test_wrong_usage_is_told(settings: KafkaSettings, arguments: str, capsys: Capture) -> None:
    assert culm(settings, *arguments.split()) == 2
    assert capsys.readouterr().out == ""
