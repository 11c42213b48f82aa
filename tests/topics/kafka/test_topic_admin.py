"""Creating and checking topics on a real broker, and the rights that programs need."""

import uuid

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import readers, spec, writers
from culm_topics.dag.catalogue import DAG
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import acls, connector_group_prefix, reader_group_prefix
from culm_topics.kafka.admin import Difference
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import job_group_prefix
from tests.support.process.waiting import looks


def settings(bootstrap: str, prefix: str | None = None, **arguments: int) -> KafkaSettings:
    return KafkaSettings.model_validate(
        {"bootstrap": bootstrap, "prefix": prefix or f"t{uuid.uuid4().hex[:10]}.", **arguments}
    )


@pytest.mark.kafka
def test_create_adds_what_is_missing_and_check_then_finds_nothing(kafka_bootstrap: str) -> None:
    kafka_settings = settings(kafka_bootstrap, partitions=2)
    missing = admin.check(kafka_settings)
    assert {difference.kind for difference in missing} == {"missing"}
    assert len(missing) == len(CATALOGUE)
    assert not any(state.exists for state in admin.list_topics(kafka_settings))
    assert admin.create(kafka_settings, [spec("logs")]) == (kafka_settings.topic("logs"),)
    assert set(admin.create(kafka_settings)) == {kafka_settings.topic(topic.name) for topic in CATALOGUE} - {
        kafka_settings.topic("logs")
    }
    assert admin.create(kafka_settings) == ()
    assert admin.check(kafka_settings) == ()
    states = {state.name: state for state in admin.list_topics(kafka_settings)}
    assert states["logs"].partitions == 2
    assert states["announcements"].partitions == 1
    assert all(state.topic_id for state in states.values())


@pytest.mark.kafka
def test_check_says_exactly_what_differs(kafka_bootstrap: str) -> None:
    kafka_settings = settings(kafka_bootstrap, partitions=2)
    admin.create(kafka_settings)
    logs = kafka_settings.topic("logs")
    client = kafka.admin(kafka_settings)
    change = ConfigResource(
        ResourceType.TOPIC,
        logs,
        incremental_configs=[
            ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    for future in client.incremental_alter_configs([change]).values():
        future.result(30)
    other = settings(kafka_bootstrap, kafka_settings.prefix, partitions=3)
    # The broker that answers learns of a change a moment after it was made.
    for _ in looks("both changes"):
        if len(differences := admin.check(other, [spec("logs")])) >= 2:
            break
    assert differences == (
        Difference(logs, "partitions", None, "3", "2"),
        Difference(logs, "config", "retention.ms", "-1", "1000"),
    )
    assert str(differences[1]) == f"{logs}: retention.ms is 1000, the catalogue says -1"


@pytest.mark.kafka
def test_a_broker_that_refuses_is_quoted(kafka_bootstrap: str) -> None:
    with pytest.raises(KafkaFailure, match=r"creating topic .*INVALID_REPLICATION_FACTOR"):
        admin.create(settings(kafka_bootstrap, replication_factor=3))


def test_a_broker_that_is_not_there_is_an_error_in_time() -> None:
    with pytest.raises(KafkaFailure):
        admin.list_topics(settings("127.0.0.1:1"), timeout_seconds=1)


def test_a_consumer_reads_what_is_replicated_and_writes_nothing() -> None:
    rights = [right for right in acls(settings("h:1", "culm.")) if right.program == "consumer"]
    assert {(right.resource, right.name, right.operation) for right in rights} == {
        *(
            ("topic", f"culm.{name}", operation)
            for name in (
                "logs",
                "fragments",
                "payloads",
                "coverage",
                "documents",
                "sds.messages",
                "sds.index",
                "sds.events",
                "chotki.packets",
                "chotki.state",
                "chotki.vectors",
                *(topic.name for topic in DAG),
            )
            for operation in ("Read", "Describe")
        ),
        ("group", "culm.", "Read"),
    }


def test_a_connector_may_use_the_groups_that_it_names() -> None:
    kafka = settings("h:1", "edge.")
    rights = [right for right in acls(kafka, ("connector",)) if right.resource == "group"]
    assert {(right.name, right.operation) for right in rights} == {
        (connector_group_prefix(kafka), "Read"),
        (reader_group_prefix(kafka), "Read"),
        (job_group_prefix(kafka), "Describe"),
    }
    assert {right.name for right in rights} == {"edge.connector-", "edge.reader-", "edge.job-"}


def test_rights_follow_the_catalogue() -> None:
    rights = acls(settings("h:1", "culm."))
    for topic in CATALOGUE:
        named = {(right.program, right.operation) for right in rights if right.name == f"culm.{topic.name}"}
        assert {program for program, operation in named if operation == "Write"} == set(writers(topic))
        assert {program for program, operation in named if operation == "Read"} == set(readers(topic))
    assert {right.program for right in rights if right.operation in ("Create", "Delete")} == {"admin"}
