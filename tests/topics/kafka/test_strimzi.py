"""KafkaTopics of Strimzi follow from the catalogue and the settings, without a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from culm_infra.cli.root import run
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import spec, topics_of
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.strimzi import resource_name, strimzi_topics

Capture = pytest.CaptureFixture[str]
# Names of objects in Kubernetes: RFC 1123 subdomains.
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def printed(capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    assert run(["topics", "create", "--as", "strimzi", *arguments]) == 0
    return documents(capsys.readouterr().out)


def test_every_topic_of_the_catalogue_is_a_kafka_topic(capsys: Capture) -> None:
    topics = printed(capsys)
    assert [topic["spec"]["topicName"] for topic in topics] == [f"culm.{topic.name}" for topic in CATALOGUE]
    for topic in topics:
        assert (topic["apiVersion"], topic["kind"]) == ("kafka.strimzi.io/v1", "KafkaTopic")
        assert topic["metadata"]["labels"] == {"strimzi.io/cluster": "kafka"}
        assert "replicas" not in topic["spec"], "the brokers' default applies"


def test_flags_and_settings_give_the_layout(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "culm.toml"
    file.write_text(
        'prefix = "Tide_Pool."\npartitions = 3\nmin_insync_replicas = 2\n'
        '[topic_config.logs]\n"remote.storage.enable" = "true"\n'
    )
    wanted = ("--protocol", "sds", "--partitions", "5", "--replication-factor", "3")
    topics = printed(capsys, "--config", str(file), *wanted, "--strimzi-cluster", "tides")
    assert [topic["spec"]["topicName"] for topic in topics] == [
        f"Tide_Pool.{topic.name}" for topic in topics_of(["sds"])
    ]
    by_name = {topic["metadata"]["name"]: topic for topic in topics}
    entry = by_name["tide-pool.sds.in"]
    assert entry["metadata"]["labels"] == {"strimzi.io/cluster": "tides"}
    assert entry["spec"]["partitions"] == (5 if spec("sds.in").partitioned else spec("sds.in").partitions)
    assert entry["spec"]["replicas"] == 3
    assert entry["spec"]["config"] == {**spec("sds.in").config, "min.insync.replicas": "2"}
    (logs,) = (
        topic
        for topic in printed(capsys, "--config", str(file), "--protocol", "p2panda")
        if topic["spec"]["topicName"] == "Tide_Pool.logs"
    )
    assert logs["spec"]["config"]["remote.storage.enable"] == "true"


@pytest.mark.parametrize("prefix", ["", "culm.", "A_b-.", "--.", "__", "x" * 63 + "."])
def test_every_prefix_gives_names_that_kubernetes_allows(prefix: str) -> None:
    settings = KafkaSettings(bootstrap="none", prefix=prefix)
    topics = documents(strimzi_topics(settings, CATALOGUE, cluster="kafka"))
    names = [topic["metadata"]["name"] for topic in topics]
    assert len(set(names)) == len(CATALOGUE)
    for name in names:
        assert OBJECT_NAME.fullmatch(name), name


def test_a_name_that_kubernetes_allows_stays() -> None:
    assert resource_name("culm.version-vectors") == "culm.version-vectors"
