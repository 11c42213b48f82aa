"""What the job writes is what the commands show: its own records, written twice as after a failed batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_streaming.sds.output_records import Topic
from culm_topics.kafka.clients import KafkaSettings
from tests.support.sds.shards import Shard, content, peer, stored
from tests.support.sds.topics import sds_settings, store, write, write_index

pytestmark = pytest.mark.kafka

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str, tmp_path: Path, monkeypatch: Any) -> KafkaSettings:
    """A deployment in which a channel has had a short conversation with a message that nobody has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = sds_settings(
        kafka_bootstrap, topic_prefix, "sds.events", "sds.acks", "sds.index", "sds.messages"
    )
    shard, carol = Shard(), peer("carol")
    for participant_id in ("alice", "bob"):
        shard.ask("c", "join", participant_id, settings={"lost_timeout_ms": 20_000})
    shard.ask("c", "send", "alice", b"who is there?")
    shard.batch()
    shard.now_ms += 1_000
    content(carol, b"never heard", shard.now_ms)
    shard.hear("c", content(carol, b"me", shard.now_ms))
    shard.batch()
    shard.wait(40_000)
    shard.ask("c", "send", "alice", b"goodbye")
    shard.batch()
    for topic in (Topic.EVENTS, Topic.ACKS):
        records = [("c", record.key, record.value) for record in shard.written if record.topic is topic]
        write(settings, topic, [*records, *records])
    write_index(settings, "c", store(settings, "c", stored(shard.written)))
    return settings


def rows(settings: KafkaSettings, capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    flags = ["--bootstrap", settings.bootstrap, "--prefix", settings.prefix, "--json"]
    assert run(["sds", *arguments, *flags]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_tail_status_and_fetch_tell_the_same_story(settings: KafkaSettings, capsys: Capture) -> None:
    first, second, last = rows(settings, capsys, "tail", "c", "--no-follow")
    assert (first["text"], first["sender_id"], first["position"]) == ("who is there?", "alice", 0)
    assert (first["state"], first["evidence"]) == ("acknowledged", ["bob"])
    assert (second["text"], second["sender_id"], second["state"]) == ("me", "carol", None)
    assert len(second["gap"]) == 1
    assert (last["text"], last["state"]) == ("goodbye", "unacknowledged")
    every = rows(settings, capsys, "tail", "c", "--no-follow", "--all")
    numbers = [row["number"] for row in every]
    assert numbers == sorted(set(numbers))
    assert {"joined", "message", "missing", "lost"} <= {row["kind"] for row in every}

    (status,) = rows(settings, capsys, "status", "c")
    assert (status["log"], status["waiting"], status["lost"]) == (3, 0, 1)
    assert [participant["participant_id"] for participant in status["participants"]] == ["alice", "bob"]
    (message,) = status["participants"][0]["messages"]
    for name in ("message_id", "state", "evidence"):
        assert message[name] == last[name]

    (fetched,) = rows(settings, capsys, "fetch", "c", second["message_id"])
    assert (fetched["text"], fetched["causal_history"]) == ("me", second["gap"])
    assert rows(settings, capsys, "fetch", "c", fetched["hint"]) == [fetched]
