"""`--from`: the same places in every command that reads a stream, and plain words for anything else."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import typer

from culm_connectors.sds.participants.client import FROM_NOW, FROM_THE_BEGINNING, EventPosition
from culm_infra.cli.kit.start_at import (
    StartNumber,
    StartOffsets,
    StartTime,
    parse_place,
    parse_start,
    start_offsets,
)
from culm_infra.cli.root import run
from culm_infra.cli.sds.join import position_of
from culm_infra.errors import InfraError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions
from tests.support.kafka.topic_io import write_records, write_truth
from tests.support.p2panda.logs import author, make_log

Capture = pytest.CaptureFixture[str]
NOW_MS = 1_795_773_600_000
"""2026-11-27 10:00:00 in UTC."""
NEWEST_MS = NOW_MS + 86_400_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", "beginning"),
        ("now", "now"),
        ("0", StartNumber(0)),
        ("12", StartNumber(12)),
        ("3:1200", StartOffsets({3: 1200})),
        ("0:7,1:9", StartOffsets({0: 7, 1: 9})),
        ("2026-11-27", StartTime(NOW_MS - 36_000_000, "2026-11-27")),
        ("2026-11-27T10:00", StartTime(NOW_MS, "2026-11-27T10:00")),
        ("2026-11-27 10:00:00.250", StartTime(NOW_MS + 250, "2026-11-27 10:00:00.250")),
        ("2026-11-27T10:00Z", StartTime(NOW_MS, "2026-11-27T10:00Z")),
        ("2026-11-27T12:30+02:30", StartTime(NOW_MS, "2026-11-27T12:30+02:30")),
        ("30s", StartTime(NEWEST_MS - 30_000, "30s")),
        ("10m", StartTime(NEWEST_MS - 600_000, "10m")),
        ("2h", StartTime(NEWEST_MS - 7_200_000, "2h")),
        ("1d", StartTime(NOW_MS, "1d")),
        ("999999999d", StartTime(0, "999999999d")),
    ],
)
def test_a_place_is_a_word_a_number_offsets_of_partitions_or_a_time(text: str, start: object) -> None:
    assert parse_start(text, now_ms=NEWEST_MS) == start


@pytest.mark.parametrize(
    "text",
    [
        *("", "12x", "end", "middle", "-1", "1.5", "٣", "0:1,0:2", "1:2:3", "10 m", "now ", "\udcff"),
        *("2026-13-01", "2026-11-27T99:00", "9" * 30, "1:" + "9" * 30),
    ],
)
def test_anything_else_is_refused_in_plain_words(text: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        parse_start(text)
    assert str(refused.value) == (
        f"{text!r} is not a place to start: give beginning, now, an offset, or a time as 2026-11-27T10:00 or "
        "10m"
    )
    assert refused.value.param_hint == "--from"


def test_a_time_in_the_future_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="in the future: a time without a zone is in UTC"):
        parse_start("2026-11-27T10:01", now_ms=NOW_MS)


@pytest.mark.parametrize("text", ["", "17", "0:", ":1", "0:1,1:1", "a:b", "0:-1", "0:1:2"])
def test_the_place_of_a_record_is_a_partition_and_an_offset(text: str) -> None:
    assert parse_place("0:17", "PLACE") == (0, 17)
    with pytest.raises(typer.BadParameter, match="is not PARTITION:OFFSET, such as 0:17"):
        parse_place(text, "PLACE")


@pytest.mark.parametrize(
    "command", ["logs tail", "sds tail general", "rejected tail", "rejected replay --code x"]
)
def test_every_command_that_reads_a_stream_answers_a_wrong_place_alike(command: str, capsys: Capture) -> None:
    assert run([*command.split(), "--from", "12x"]) == 2
    printed = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "'12x' is not a place to start: give beginning, now, " in printed
    assert "or a time as 2026-11-27T10:00 or 10m" in printed


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("now", FROM_NOW),
        ("beginning", FROM_THE_BEGINNING),
        ("1", FROM_THE_BEGINNING),
        ("7", EventPosition(6, b"")),
        ("2h", FROM_THE_BEGINNING),
    ],
)
def test_a_client_of_a_hosted_participant_starts_at_an_event(text: str, position: EventPosition) -> None:
    assert position_of(parse_start(text)) == position


@pytest.mark.parametrize("text", ["0", "0:3"])
def test_events_have_numbers_from_1(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="numbers from 1"):
        position_of(parse_start(text))


@pytest.mark.kafka
def test_a_place_becomes_an_offset_of_each_partition(kafka: KafkaSettings) -> None:
    write_records(kafka, "logs", [(number % 2, b"k", b"v") for number in range(10)])
    with TopicPartitions(kafka, "logs") as reader:
        for text, offsets in {
            "beginning": {0: 0, 1: 0},
            "now": {0: 5, 1: 5},
            "1:2": {0: 5, 1: 2},
            "0:0,1:5": {0: 0, 1: 5},
            "1h": {0: 0, 1: 0},
            "0s": {0: 5, 1: 5},
        }.items():
            assert start_offsets(parse_start(text), reader) == offsets, text
        for text, words in {
            "3": "3 is an offset, and .*logs has 2 partitions: give PARTITION:OFFSET, such as 0:3",
            "10:00": "has the partitions 0 to 1, not 10; a time of day needs its date",
        }.items():
            with pytest.raises(typer.BadParameter, match=words):
                start_offsets(parse_start(text), reader)
        with pytest.raises(InfraError, match=r"offset 9 is not yet in .*: partition 1 has 0 to 5"):
            start_offsets(parse_start("1:9"), reader)
    with TopicPartitions(kafka, "rejected") as reader:
        assert start_offsets(parse_start("0"), reader) == {0: 0}


@pytest.mark.kafka
def test_logs_are_followed_from_a_time_and_from_offsets(kafka: KafkaSettings, capsys: Capture) -> None:
    panda, bear = make_log(author("panda"), 0, 3), make_log(author("bear"), 4, 2)

    def tail(start: str, count: int) -> list[Any]:
        arguments = ["--from", start, "--count", str(count), "--json", "--bootstrap", kafka.bootstrap]
        assert run(["logs", "tail", *arguments, "--prefix", kafka.prefix]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    write_truth(kafka, panda)
    between = datetime.now(UTC)
    while datetime.now(UTC) == between:
        pass
    write_truth(kafka, bear)
    rows = tail(between.isoformat(timespec="microseconds"), 2)
    assert [(row["log_id"], row["seq_num"]) for row in rows] == [(4, 1), (4, 2)]
    first, second, _ = tail("beginning", 5)[:3]
    place = f"{second['partition']}:{second['offset']}"
    (again,) = tail(place, 1)
    assert (again["partition"], again["offset"]) == (second["partition"], second["offset"])
    assert first["timestamp_ms"] <= second["timestamp_ms"]
