"""`culm sds tail`, `status` and `fetch` on the real broker, with records that the tests wrote."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_infra.cli.sds.channel import complete_channel
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import HistoryEntry, Message
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end
from culm_topics.sds.keys import AckKey, split_channel_key
from culm_topics.sds.records import (
    SdsAckRecord,
    SdsChannelRecord,
    SdsCommandRecord,
    SdsEventKind,
    SdsEventRecord,
    SdsMessageRecord,
    SdsParticipantRecord,
)
from culm_topics.sds.retrieval_hints import StoreHint
from tests.support.process.groups import child
from tests.support.sds.topics import sds_settings, store, write, write_events, write_index

pytestmark = pytest.mark.kafka

Capture = pytest.CaptureFixture[str]
CHANNEL = "general"
OWNER = bytes(range(32))
TIME_MS = 1_763_000_000_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return sds_settings(kafka_bootstrap, topic_prefix, "sds.events", "sds.acks", "sds.index", "sds.messages")


def flags(settings: KafkaSettings) -> list[str]:
    return ["--bootstrap", settings.bootstrap, "--prefix", settings.prefix]


def culm(settings: KafkaSettings, *arguments: str) -> int:
    return run(["sds", *arguments, *flags(settings)])


def printed(capsys: Capture) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def event(
    number: int, kind: SdsEventKind, message_id: str, participant_id: str | None = None, **details: Any
) -> SdsEventRecord:
    content = f"says {message_id}".encode() if kind in ("sent", "delivered") else None
    return SdsEventRecord(number, kind, participant_id, message_id, TIME_MS + number, details, content)


EVENTS = [
    event(1, "joined", "", "ann"),
    event(2, "sent", "b", "ann", lamport_timestamp=20, position=0),
    event(3, "delivered", "c", sender_id="ben", lamport_timestamp=30, position=1, gap=("x",)),
    event(4, "delivered", "a", sender_id="cleo", lamport_timestamp=10, position=0),
    event(5, "acknowledged", "b", "ann", by="causal_history", evidence=("ben",)),
    event(6, "lost", "x", waiting=("c",)),
]


def test_what_is_there_comes_in_the_order_of_the_log_with_its_state(
    settings: KafkaSettings, capsys: Capture
) -> None:
    write_events(settings, CHANNEL, [*EVENTS, *EVENTS[2:]])
    write_events(settings, "another", [event(1, "delivered", "other", sender_id="dan", lamport_timestamp=1)])
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--json") == 0
    rows = printed(capsys)
    assert [(row["message_id"], row["state"], row["inserted"]) for row in rows] == [
        ("a", None, True),
        ("b", "acknowledged", False),
        ("c", None, False),
    ]
    assert rows[1]["evidence"] == ["ben"]
    assert (rows[2]["gap"], rows[2]["text"]) == (["x"], "says c")
    for ends in ("--no-follow", "--count=2"):
        assert culm(settings, "tail", CHANNEL, ends, "--tail", "2", "--json") == 0
        assert [row["message_id"] for row in printed(capsys)] == ["b", "c"]
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--tail", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "✓ acknowledged by ben" in lines[0]
    assert "⚠ gap: x lost" in lines[1]


def test_a_tail_may_begin_at_a_number_and_show_every_event(settings: KafkaSettings, capsys: Capture) -> None:
    write_events(settings, CHANNEL, EVENTS)
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--from", "4", "--all", "--json") == 0
    assert [row["number"] for row in printed(capsys)] == [4, 5, 6]
    assert culm(settings, "tail", CHANNEL, "--from", "4", "--all", "--json", "-n", "2") == 0
    assert [row["number"] for row in printed(capsys)] == [4, 5]
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--all") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(EVENTS)
    assert "ann: joined" in lines[0]
    assert "↑ inserted" in lines[3]


def test_a_tail_may_begin_at_a_time_of_the_channel(settings: KafkaSettings, capsys: Capture) -> None:
    write_events(settings, CHANNEL, EVENTS)
    third = datetime.fromtimestamp((TIME_MS + 3) / 1_000, UTC).isoformat(timespec="milliseconds")
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--from", third, "--json") == 0
    assert [row["message_id"] for row in printed(capsys)] == ["a", "c"]
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--from", third, "--all", "--json") == 0
    assert [row["number"] for row in printed(capsys)] == [3, 4, 5, 6]
    assert culm(settings, "tail", CHANNEL, "--no-follow", "--from", "0s", "--json") == 0
    talk = capsys.readouterr()
    assert talk.out == ""
    assert "no such events" in talk.err


def test_a_tail_follows_what_comes_until_it_is_interrupted(settings: KafkaSettings) -> None:
    write_events(settings, CHANNEL, EVENTS[:2])
    arguments = ["sds", "tail", CHANNEL, "--from", "beginning", "--json", *flags(settings)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with child([sys.executable, "-m", "culm_infra", *arguments], env=environment) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())["message_id"] == "b"
        write_events(settings, CHANNEL, EVENTS[2:])
        rows = [json.loads(program.stdout.readline()) for _ in range(4)]
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 130
    assert [row["kind"] for row in rows] == ["message", "message", "acknowledged", "lost"]
    assert [row.get("inserted") for row in rows[:2]] == [False, True]


def test_a_channel_without_events_is_said_to_have_none(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "tail", "nobody", "--no-follow") == 0
    talk = capsys.readouterr()
    assert talk.out == ""
    assert "culm sds status" in talk.err


@pytest.fixture
def standing(settings: KafkaSettings) -> None:
    summary = SdsChannelRecord("nim", TIME_MS, TIME_MS // 1000 + 5, 7, 1, 2, 3, 2, 2, 99, TIME_MS + 1)
    rows: list[tuple[AckKey, bytes | None]] = [
        (AckKey(CHANNEL), summary.encode()),
        (AckKey(CHANNEL, "ann"), SdsParticipantRecord(TIME_MS, 1, 1).encode()),
        (AckKey(CHANNEL, "ann", "m1"), SdsAckRecord("unacknowledged", (), 2, TIME_MS + 9).encode()),
        (AckKey(CHANNEL, "ann", "m2"), SdsAckRecord("possibly_acknowledged", ("ben",), 0, 8).encode()),
        (AckKey(CHANNEL, "ann", "m3"), SdsAckRecord("acknowledged", ("ben",)).encode()),
        (AckKey(CHANNEL, "ann", "m4"), SdsAckRecord("unacknowledged").encode()),
        (AckKey(CHANNEL, "ann", "m4"), None),
        (AckKey(CHANNEL, "left"), SdsParticipantRecord(TIME_MS).encode()),
        (AckKey(CHANNEL, "left", "m5"), SdsAckRecord("gave_up", (), 10).encode()),
        (AckKey(CHANNEL, "left", "m5"), None),
        (AckKey(CHANNEL, "left"), None),
    ]
    write(settings, "sds.acks", [(CHANNEL, key.encode(), value) for key, value in rows])
    other = SdsChannelRecord("js", TIME_MS, TIME_MS, 0, 0, 0, 0, 0, 0, 1)
    write(settings, "sds.acks", [("other", AckKey("other").encode(), other.encode())])


@pytest.mark.usefixtures("standing")
def test_status_shows_buffers_clocks_and_participants(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "status", CHANNEL, "--json") == 0
    (row,) = printed(capsys)
    assert {name: row[name] for name in ("profile", "log", "waiting", "missing", "lost", "outgoing")} == {
        "profile": "nim",
        "log": 7,
        "waiting": 1,
        "missing": 2,
        "lost": 3,
        "outgoing": 2,
    }
    assert row["ahead_ms"] == 5_000
    (ann,) = row["participants"]
    assert (ann["participant_id"], ann["unacknowledged"], ann["possibly_acknowledged"]) == ("ann", 1, 1)
    assert (ann["acknowledged"], ann["gave_up"], ann["next_due_ms"]) == (1, 0, 8)
    assert {message["message_id"] for message in ann["messages"]} == {"m1", "m2"}
    assert culm(settings, "status", CHANNEL) == 0
    shown = capsys.readouterr().out
    for part in ("profile nim", "5000 ms", "ann", "m1", "possibly", "ben"):
        assert part in shown


@pytest.mark.usefixtures("standing")
def test_status_without_a_channel_lists_all(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "status", "--json") == 0
    assert [row["channel"] for row in printed(capsys)] == [CHANNEL, "other"]
    assert culm(settings, "status") == 0
    assert "other" in capsys.readouterr().out
    assert culm(settings, "status", "nobody") == 1
    assert "`culm sds status` lists" in capsys.readouterr().err


def test_status_of_a_deployment_without_channels_says_so(settings: KafkaSettings, capsys: Capture) -> None:
    assert culm(settings, "status") == 0
    assert "no channels yet" in capsys.readouterr().err


def test_a_message_is_fetched_by_id_and_by_hint(
    settings: KafkaSettings, capsys: Capture, tmp_path: Path
) -> None:
    message = Message("ann", "m1", CHANNEL, 7, (HistoryEntry("m0"),), bytes(8), b"hello")
    wire = encode(message, "spec")
    rows = store(settings, CHANNEL, [SdsMessageRecord("spec", "m1", "ann", 7, wire)])
    write_index(settings, CHANNEL, rows)
    hint = StoreHint.of_index(rows[0][1]).encode().hex()
    for wanted in ("m1", hint, hint.upper()):
        assert culm(settings, "fetch", CHANNEL, wanted, "--json") == 0
        (row,) = printed(capsys)
        assert (row["message_id"], row["sender_id"], row["hint"]) == ("m1", "ann", hint)
        assert (row["causal_history"], row["text"], row["bloom_bytes"]) == (["m0"], "hello", 8)
    assert culm(settings, "fetch", CHANNEL, "m1") == 0
    assert "hello" in capsys.readouterr().out
    file = tmp_path / "message.bin"
    assert culm(settings, "fetch", CHANNEL, "m1", "--output", str(file)) == 0
    assert file.read_bytes() == wire
    assert complete_channel("gen") == [CHANNEL]
    assert complete_channel("x") == []


def test_a_message_that_is_not_there_is_an_error_that_says_what_to_do(
    settings: KafkaSettings, capsys: Capture
) -> None:
    rows = store(settings, CHANNEL, [SdsMessageRecord("spec", "m1", "ann", 7, b"wire")])
    hint = StoreHint.of_index(rows[0][1])
    assert culm(settings, "fetch", CHANNEL, "m1") == 1
    assert "sds-index" in capsys.readouterr().err
    assert culm(settings, "fetch", "elsewhere", hint.encode().hex()) == 1
    assert "leads to no message" in capsys.readouterr().err
    wrong = StoreHint(hint.partition, hint.offset + 5, hint.check)
    assert culm(settings, "fetch", CHANNEL, wrong.encode().hex()) == 1
    write_index(settings, CHANNEL, [("m9", rows[0][1])])
    assert culm(settings, "fetch", CHANNEL, "m9") == 1
    assert "culm topics check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("participant", "kind"), [("ben", "transfer"), (None, "open")], ids=["participant", "channel"]
)
def test_a_transfer_is_asked_of_the_job_by_an_operator(
    kafka_bootstrap: str, topic_prefix: str, capsys: Capture, participant: str | None, kind: str
) -> None:
    settings = sds_settings(kafka_bootstrap, topic_prefix, "sds.commands")
    named = () if participant is None else ("--participant", participant)
    assert culm(settings, "transfer", CHANNEL, OWNER.hex(), *named, "--json") == 0
    assert printed(capsys) == [
        {"channel": CHANNEL, "kind": kind, "participant_id": participant, "peer_id": OWNER.hex()}
    ]
    (message,) = read_to_end(settings, "sds.commands")
    command = SdsCommandRecord.decode(message.value)
    assert split_channel_key(message.key) == CHANNEL
    assert (command.kind, command.content, command.peer_id) == (kind, OWNER, None)
    assert participant in (None, command.participant_id)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("tail", CHANNEL, "--from", "yesterday"), 2),
        (("tail", CHANNEL, "--from", "0"), 2),
        (("tail", CHANNEL, "--from", "0:3"), 2),
        (("tail", CHANNEL, "--all", "--tail", "3"), 2),
        (("tail", ""), 1),
        (("status", "x" * 1_025), 1),
        (("fetch", CHANNEL, ""), 1),
        (("fetch", CHANNEL, "4b" + "ff" * 16), 1),
    ],
)
def test_wrong_usage_is_told_before_any_broker_is_asked(arguments: tuple[str, ...], status: int) -> None:
    assert run(["sds", *arguments, "--bootstrap", "127.0.0.1:1"]) == status
