"""One bad record costs itself: every command that reads a topic passes it over, and shows that it did."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.blocks import read_block_vectors, read_blocks
from culm_topics.logs.records import BlockKey, BlockKind, BlockSummary, VersionVectorRecord
from culm_topics.records import HEIGHTS_PEER_ID, version_vector_key
from tests.support.kafka.topic_io import produce
from tests.support.p2panda.log_topic import log_record

pytestmark = pytest.mark.kafka

POISON: list[tuple[bytes | None, bytes | None]] = [(b"\x00", b"\xff"), (b"key", b"")]
EMPTY_BLOCK = BlockSummary(((0, 1),), 0, 0, (), 0, (), b"")


@pytest.fixture(scope="module")
def settings(kafka_bootstrap: str) -> KafkaSettings:
    """A deployment in which every topic that people look at holds poison and one good record."""
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=f"t{uuid.uuid4().hex[:10]}.", partitions=1)
    admin.create(settings)
    author, peer = bytes(range(32)), bytes([7]) * 32
    good: dict[str, tuple[bytes, bytes]] = {
        "logs": log_record("a", 1),
        "version-vectors": (version_vector_key(peer, author, 0), VersionVectorRecord(3).encode()),
        "blocks": (BlockKey(BlockKind.SUMMARY, 0, 0, b"venue").encode(), EMPTY_BLOCK.encode()),
        "block-vectors": (BlockKey(BlockKind.SUMMARY, 0, 0, peer).encode(), EMPTY_BLOCK.encode()),
        "announcements": (peer, b"no announcement"),
    }
    for topic, record in good.items():
        produce(settings, topic, [*POISON, record])
    produce(settings, "logs", [(None, None)])  # a topic that is compacted takes no record without a key
    produce(
        settings,
        "version-vectors",
        [(version_vector_key(HEIGHTS_PEER_ID, author, 0), b"\x82"), (b"", b"\x01")],
    )
    # Well-formed keys whose names no set of the topic has, and a summary that is none.
    strange = BlockKey(BlockKind.SUMMARY, 0, 0, b"\xff\xfe").encode()
    produce(settings, "blocks", [(strange, EMPTY_BLOCK.encode())])
    produce(settings, "blocks", [(BlockKey(BlockKind.SUMMARY, 0, 0, b"torn").encode(), b"\x80")])
    produce(settings, "block-vectors", [(strange, EMPTY_BLOCK.encode())])
    produce(settings, "sds.acks", POISON)
    return settings


def culm(
    settings: KafkaSettings, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, Any, str]:
    """Exit status, the objects of `--json`, and what a person is told."""
    where = ("--bootstrap", settings.bootstrap, "--prefix", settings.prefix)
    status = run([*arguments, *where, "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run([*arguments, *where]) == status
    return status, rows, capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "topic", "records"),
    [("logs status", "version-vectors", 4), ("logs blocks", "blocks", 4), ("sds status", "sds.acks", 2)],
)
def test_a_view_shows_what_it_passed_over_beside_what_there_is(
    settings: KafkaSettings,
    capsys: pytest.CaptureFixture[str],
    command: str,
    topic: str,
    records: int,
) -> None:
    status, rows, stderr = culm(settings, capsys, *command.split())
    assert status == 0
    (problem,) = (row for row in rows if "problem" in row)
    assert (problem["problem"], problem["topic"], problem["records"]) == ("topics.record", topic, records)
    assert "partition 0 offset 0" in problem["first"][0]
    assert f"{records} records of `{topic}` were skipped" in stderr


def test_listing_logs_passes_over_what_is_no_record_and_says_so(
    settings: KafkaSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    status, rows, stderr = culm(settings, capsys, "logs", "list")
    assert status == 3
    assert [row["height"] for row in rows if "height" in row] == [1]
    assert {"problem": "topics.record", "topic": "logs", "records": 3} in rows
    assert "3 malformed records of `logs` were skipped" in stderr


def test_the_good_blocks_are_there_and_torn_ones_are_named(settings: KafkaSettings) -> None:
    blocks = read_blocks(settings)
    assert [block.schema_id for block in blocks] == ["venue"]
    assert blocks.torn == ((b"torn", 0),)
    assert len(read_block_vectors(settings)) == 1
