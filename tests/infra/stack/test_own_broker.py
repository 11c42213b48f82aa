"""What only a broker of one's own shows: that it stands still, and what it creates by default."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from culm_infra.stack import Stack
from culm_streaming.kafka_io import watch as kafka_watch
from culm_streaming.kafka_io.watch import KafkaWatch
from culm_topics.catalogue.topics import spec
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import ask_origin
from tests.support.topic_io import produce

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("own"))
    stack.up(quick_start=True, properties={"default.replication.factor": "3"})
    try:
        yield stack
    finally:
        stack.down()


def test_topics_are_created_with_the_brokers_default_replication_factor(stack: Stack) -> None:
    kafka = KafkaSettings(bootstrap=stack.bootstrap, prefix="default.")
    # One broker cannot hold the three copies that it is told to make by default: so it was asked for them.
    with pytest.raises(KafkaFailure, match="replication factor"):
        admin.create(kafka, [spec("logs")])
    admin.create(kafka.model_copy(update={"replication_factor": 1}), [spec("logs")])
    (found,) = admin.durability(kafka, [spec("logs")])
    assert (found.replicas, found.brokers, found.min_insync_replicas, found.risk) == (1, 1, 1, None)
    assert admin.check(kafka, [spec("logs")]) == ()


def test_a_kafka_that_stands_still_is_away_until_it_answers_and_lag_is_what_its_ends_say(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_watch, "_TIMEOUT_SECONDS", 0.5)
    kafka = KafkaSettings(bootstrap=stack.bootstrap, prefix="away.", replication_factor=1, partitions=2)
    admin.create(kafka, [spec("logs")])
    client, topic = clients.admin(kafka), kafka.topic("logs")
    watch = KafkaWatch(client, ask_origin(client, [topic]), [topic])
    pid = stack.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        watch.ask()
        assert not watch.is_up
        assert "Kafka has not answered" in str(watch.away())
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(kafka_watch, "_TIMEOUT_SECONDS", 30.0)
    produce(kafka, "logs", [(b"k", b"v")] * 5)
    watch.ask()
    assert watch.is_up
    assert watch.away() is None
    assert sum(watch.lag({}, {topic}).values()) == 5
    assert sum(watch.lag({(topic, 0): 2, (topic, 1): 2}, {topic}).values()) == 3
    assert watch.lag({}, {"another"}) == {}
    assert watch.changed() is None


@pytest.mark.parametrize(
    ("replicas", "min_insync", "said"),
    [(1, 1, "one copy on 3 brokers"), (3, 1, "is 1 of 3"), (3, 3, "nothing is written while"), (3, 2, None)],
)
def test_what_the_loss_of_one_broker_costs_is_a_warning(
    replicas: int, min_insync: int, said: str | None
) -> None:
    risk = admin.Durability("culm.logs", replicas, 3, min_insync).risk
    assert risk is None if said is None else said in str(risk)
