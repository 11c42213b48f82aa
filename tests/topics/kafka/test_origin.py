"""Offsets are kept with the cluster and the creation of the topics that they belong to."""

from __future__ import annotations

import pytest

from culm_topics.catalogue.topics import spec
from culm_topics.errors import OriginChanged, RecordError, TopicMissing
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin, ask_origin

KEPT = Origin("cluster-1", {"culm.entries": "id-1", "culm.logs": "id-2"})


def test_an_origin_survives_its_bytes() -> None:
    assert Origin.decode(KEPT.encode()) == KEPT


@pytest.mark.parametrize("encoded", [b"", b"[]", b"1", b"{}", b'{"cluster_id": 1, "topic_ids": {}}', b"\xff"])
def test_bytes_that_are_no_origin_are_refused(encoded: bytes) -> None:
    with pytest.raises(RecordError):
        Origin.decode(encoded)


def test_topics_that_came_later_are_no_difference() -> None:
    KEPT.check(Origin("cluster-1", {**KEPT.topic_ids, "culm.blocks": "id-3"}), what="x", remedy="y")


@pytest.mark.parametrize(
    ("current", "message"),
    [
        (Origin("cluster-2", KEPT.topic_ids), "the cluster was cluster-1 and is cluster-2"),
        (
            Origin("cluster-1", {**KEPT.topic_ids, "culm.logs": "id-9"}),
            r"culm.logs was deleted and created again \(id id-2, now id-9\)",
        ),
        (Origin("cluster-1", {"culm.logs": "id-2"}), "culm.entries is no longer there"),
        (
            Origin("cluster-1", {"w2.entries": "id-1", "w2.logs": "id-2"}),
            "the topics were culm.entries, culm.logs and are w2.entries, w2.logs",
        ),
    ],
)
def test_another_cluster_creation_or_prefix_is_refused_with_the_remedy(current: Origin, message: str) -> None:
    with pytest.raises(OriginChanged, match=message) as error:
        KEPT.check(current, what="the checkpoint", remedy="start anew")
    assert error.value.hint == "start anew"


@pytest.mark.kafka
def test_the_broker_gives_every_creation_of_a_topic_an_id_of_its_own(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    names = [settings.topic("entries"), settings.topic("logs")]
    client = kafka.admin(settings)
    with pytest.raises(TopicMissing, match=r"entries, .*logs"):
        ask_origin(client, names)
    admin.create(settings, [spec("entries"), spec("logs")])
    before = ask_origin(client, names)
    assert set(before.topic_ids) == set(names)
    assert before.differences(ask_origin(client, names)) == ()
