"""`culm logs status` reads what the jobs wrote."""

from __future__ import annotations

import json

import pytest

from culm_infra.cli.root import run
from culm_models.p2panda.wire.codec import encode
from culm_models.p2panda.wire.messages import Announce, Offer, offer_marker
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import VersionVectorRecord as Vector
from culm_topics.records import HEIGHTS_PEER_ID, version_vector_key
from tests.support.kafka.topic_io import produce

pytestmark = [pytest.mark.kafka]

OFFER = Offer(frozenset((0, 1)), frozenset((3, 4, 9)), compact=True)
PEER, SILENT, AUTHOR = bytes([1] * 32), bytes([2] * 32), bytes([9] * 32)


@pytest.fixture
def flags(kafka_bootstrap: str, topic_prefix: str) -> list[str]:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(kafka)
    rows = [(HEIGHTS_PEER_ID, 0, 3), (HEIGHTS_PEER_ID, 1, 8), (PEER, 0, 3), (PEER, 1, 2), (PEER, 1, 5)]
    produce(
        kafka,
        "version-vectors",
        [
            (version_vector_key(peer, AUTHOR, log_id), Vector(seq_num).encode())
            for peer, log_id, seq_num in rows
        ],
    )
    announcement = encode(Announce(1, 1000, ("schema_definition_v1",)))
    offering = encode(Announce(1, 1000, ("schema_definition_v1", offer_marker(OFFER))))
    late = encode(Announce(1, 999, ("blob_v1",)))
    values = [(PEER, b"old"), (PEER, offering), (PEER, late), (SILENT, announcement)]
    produce(kafka, "announcements", values)
    return ["--bootstrap", kafka_bootstrap, "--prefix", topic_prefix]


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_status_shows_schemas_and_how_far_each_peer_is_behind(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "status", *flags, "--json"]) == 0
    assert answers(capsys) == [
        {
            "peer": PEER.hex(),
            "schemas": ["schema_definition_v1"],
            "offers": {"modes": [0, 1], "lifts": ["add128", "siphash128", "9"], "compact": True},
            "logs": 2,
            "logs_behind": 1,
            "entries_behind": 3,
        },
        {
            "peer": SILENT.hex(),
            "schemas": ["schema_definition_v1"],
            "offers": None,
            "logs": 0,
            "logs_behind": 0,
            "entries_behind": 0,
        },
    ]
    assert run(["logs", "status", *flags]) == 0
    shown = capsys.readouterr().out
    assert "announces" in shown and "culm_offers" not in shown
    assert "mode 0, 1" in shown


def test_status_shows_one_peer_by_the_start_of_its_id(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "status", "0101", *flags, "--json"]) == 0
    assert [(row["log_id"], row["seq_num"], row["height"], row["behind"]) for row in answers(capsys)] == [
        (0, 3, 3, 0),
        (1, 5, 8, 3),
    ]
    assert run(["logs", "status", "ff", *flags]) == 1
    assert run(["logs", "status", "", *flags, "--json"]) == 0
