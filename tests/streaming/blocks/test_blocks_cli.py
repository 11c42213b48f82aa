"""`culm logs blocks` shows what the job's step wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest

from culm_infra.cli.root import run
from culm_models.lifts import ADD128
from culm_streaming.blocks.packing import PackedHeights, marks_of, pack_log_records, pack_receipts
from culm_streaming.blocks.rows import HeightSource, unpack_rows
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.step import step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from tests.support.kafka.topic_io import produce

pytestmark = [pytest.mark.kafka]

LAYOUT = HeightsSettings(block_bits=1, shards=1)
LOW, HIGH = bytes([1] * 32), bytes([200] * 32)
PEER, OTHER = bytes([7] * 32), bytes([8] * 32)
HELD = [("first", LOW, 3), ("first", HIGH, 2), ("second", HIGH, 5)]


@pytest.fixture
def flags(kafka_bootstrap: str, topic_prefix: str) -> list[str]:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(kafka)
    records = []
    for number, (schema_id, key, height) in enumerate(HELD):
        value = LogRecord(height, b"e", b"o", bytes(34), schema_id).encode()
        records.append((log_key(key, number), value))
    produce(kafka, "logs", [*records, *records])
    columns = (
        pa.array([key for key, _ in records], pa.binary()),
        pa.array([value for _, value in records], pa.binary()),
        pa.array([0] * 3, pa.int32()),
        pa.array(range(3), pa.int64()),
    )
    marks = marks_of(HeightSource.RECEIPTS, pa.array([0]), pa.array([4]))
    receipts = [(PEER, [(LOW, 0, 3), (HIGH, 1, 1)], 0, 0), (OTHER, [(HIGH, 2, 5)], 0, 1)]
    store = MemoryState()
    packed = [*pack_log_records(columns, LAYOUT, "logs"), *pack_receipts(receipts, marks, LAYOUT)]
    write(kafka, store, packed)
    return ["--bootstrap", kafka_bootstrap, "--prefix", topic_prefix]


def write(kafka: KafkaSettings, store: MemoryState, packed: Iterable[PackedHeights]) -> None:
    output = step(store, 0, unpack_rows([(heights.rows, heights.rest) for heights in packed]), LAYOUT)
    produce(kafka, "blocks", output.records[HeightSource.LOGS])
    produce(kafka, "block-vectors", output.records[HeightSource.RECEIPTS])


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def fingerprint(rows: Sequence[tuple[bytes, int, int]]) -> str:
    return ADD128.fingerprint(rows)[1:].hex()


def test_blocks_shows_each_schema_and_what_is_still_to_come(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "blocks", *flags, "--json"]) == 0
    assert answers(capsys) == [
        {
            "schema": "first",
            "block_bits": 1,
            "blocks": 2,
            "logs": 2,
            "entries": 5,
            "fingerprints": {"add128": fingerprint([(LOW, 0, 3), (HIGH, 1, 2)])},
            "lag": 3,
        },
        {
            "schema": "second",
            "block_bits": 1,
            "blocks": 1,
            "logs": 1,
            "entries": 5,
            "fingerprints": {"add128": fingerprint([(HIGH, 2, 5)])},
            "lag": 3,
        },
    ]
    assert run(["logs", "blocks", *flags]) == 0
    shown = capsys.readouterr()
    assert "second" in shown.out
    assert "3 records of `logs` to come" in shown.err


def test_blocks_shows_each_block_of_one_schema(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "blocks", *flags, "--schema", "first", "--each", "--json"]) == 0
    assert [(row["block"], row["logs"], row["version"]) for row in answers(capsys)] == [
        (0, 1, [[0, 1]]),
        (1, 1, [[0, 2]]),
    ]


def test_blocks_shows_how_a_peer_stands(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "blocks", *flags, "--peer", "0707", "--json"]) == 0
    (row,) = answers(capsys)
    assert row == {
        "peer": PEER.hex(),
        "schema": "first",
        "blocks": 2,
        "equal_blocks": 1,
        "logs": 2,
        "logs_held": 2,
        "logs_behind": 1,
        "entries_behind": 1,
    }
    assert run(["logs", "blocks", *flags, "--peer", "0808", "--each", "--json"]) == 0
    (row,) = answers(capsys)
    assert (row["schema"], row["block"], row["equal"]) == ("second", 1, True)
    assert run(["logs", "blocks", *flags, "--peer", "0707"]) == 0
    assert run(["logs", "blocks", *flags, "--peer", "ff"]) == 1


def test_blocks_shows_the_logs_of_one_block(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "blocks", *flags, "--block", "1", "--peer", "0707", "--json"]) == 0
    assert [(row["schema"], row["height"], row["seq_num"], row["behind"]) for row in answers(capsys)] == [
        ("first", 2, 1, 1),
        ("second", 5, 0, 5),
    ]
    assert run(["logs", "blocks", *flags, "--block", "1"]) == 0
    assert run(["logs", "blocks", *flags, "--block", "2"]) == 1


def test_blocks_says_so_when_there_are_none(
    kafka_bootstrap: str, topic_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.create(KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1))
    assert run(["logs", "blocks", "--bootstrap", kafka_bootstrap, "--prefix", topic_prefix]) == 0
    assert "no blocks yet" in capsys.readouterr().err
