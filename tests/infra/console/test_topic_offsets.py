"""Topics of a real broker in the overview: records, rates, missing topics, and a broker that is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.console.overview.topics import TopicPoller
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import topics_of
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.console.served import serving
from tests.support.deployment.secured import NOBODY, PREFIX, USERS, Deployment, grant_all
from tests.support.kafka.cluster import running_cluster
from tests.support.kafka.topic_io import produce

pytestmark = [pytest.mark.kafka]


def test_the_numbers_of_records_and_their_rates_are_shown(kafka: KafkaSettings) -> None:
    poller = TopicPoller(kafka)
    first = {topic["name"]: topic for topic in poller.read()}
    assert set(first) == {kafka.topic(spec.name) for spec in CATALOGUE}
    entries = kafka.topic("entries")
    assert first[entries] == {
        "name": entries,
        "partitions": 2,
        "records": 0,
        "records_per_s": None,
        "readable": True,
        "detail": None,
        "severity": 0,
    }
    produce(kafka, "entries", [(b"k%d" % number, b"v") for number in range(40)])
    second = {topic["name"]: topic for topic in poller.read()}
    assert second[entries]["records"] == 40
    assert second[entries]["records_per_s"] > 0
    assert second[kafka.topic("logs")]["records_per_s"] == 0


def test_a_topic_that_is_missing_comes_first(kafka_bootstrap: str, topic_prefix: str) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    wanted = topics_of(["chotki"])
    absent, *present = (topic for topic in wanted if topic.name != "rejected")
    admin.create(kafka, present)
    first, *others = TopicPoller(kafka).read()
    assert (first["name"], first["severity"], first["partitions"]) == (kafka.topic(absent.name), 2, 0)
    assert "culm topics create" in first["detail"]
    # Topics of protocols that are not in use are no problem.
    assert {topic["name"] for topic in others} == {kafka.topic(topic.name) for topic in present}


def test_a_broker_that_is_away_is_an_error() -> None:
    with pytest.raises(KafkaFailure, match="cannot be reached"):
        TopicPoller(KafkaSettings(bootstrap="127.0.0.1:1")).read()


async def test_the_overview_has_the_topics(kafka: KafkaSettings) -> None:
    async with serving(kafka) as console:
        async for overview in console.events():
            if overview["kafka"]["state"] == "ok":
                break
        assert len(overview["topics"]) == len(CATALOGUE)
        assert overview["prefix"] == kafka.prefix


def test_topics_without_rights_are_shown_as_such(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "kafka", brokers=1, users=USERS) as cluster:
        grant_all(cluster)
        deployment = Deployment(cluster, tmp_path, partitions=1)
        admin.create(deployment.settings("admin"))
        as_operator = TopicPoller(deployment.settings("operator")).read()
        assert all(topic["readable"] and topic["records"] == 0 for topic in as_operator)
        # A connector may not read all, but describe what it writes.
        as_connector = {
            topic["name"]: topic for topic in TopicPoller(deployment.settings("connector")).read()
        }
        assert as_connector[f"{PREFIX}logs"]["readable"]
        written = as_connector[f"{PREFIX}rejected"]
        assert (written["readable"], written["severity"]) == (False, 1)
        assert "culm topics acls" in written["detail"]
        as_nobody = TopicPoller(deployment.settings(NOBODY)).read()
        assert as_nobody
        assert all(not topic["readable"] and topic["records"] is None for topic in as_nobody)
