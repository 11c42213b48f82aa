"""Whether Kafka answers and a process is ready, told by numbers and words that are true."""

from __future__ import annotations

import logging
import socket

import pytest
from confluent_kafka.admin import AdminClient

from culm_connectors.kafka import KafkaHealth
from culm_connectors.p2panda.peer_events import DriverMetrics
from culm_connectors.rate_limit import LimitedLog
from culm_models.p2panda.events import SessionFailed
from culm_topics.kafka import clients as kafka_clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import Partition
from tests.support.process.waiting import looks


@pytest.mark.kafka
def test_the_ends_are_those_of_the_broker(kafka: KafkaSettings) -> None:
    name = kafka.topic("logs")
    health = KafkaHealth(kafka_clients.admin(kafka), lambda: [name])
    assert health.away is not None and health.ends is None
    client = kafka_clients.producer(kafka)
    for _ in range(3):
        client.produce(name, b"value", b"key", partition=1)
    assert client.flush(30) == 0
    health.ask()
    assert health.away is None
    assert health.ends is not None and health.ends.offsets == {(name, 0): 0, (name, 1): 3}


def test_where_nobody_answers_that_is_said_and_the_ends_are_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))
        settings = KafkaSettings(bootstrap=f"127.0.0.1:{taken.getsockname()[1]}", options={"log_level": "0"})
        health = KafkaHealth(kafka_clients.admin(settings), lambda: ["logs"], timeout_s=0.3)
        with caplog.at_level(logging.INFO):
            health.ask()
            health.ask()
    assert health.away is not None and health.away.startswith("Kafka has not answered for ")
    assert health.ends is None
    assert [record.levelname for record in caplog.records] == ["WARNING"], "once, not at every question"


def test_an_answer_that_does_not_come_is_no_answer() -> None:
    health = KafkaHealth(
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}),
        lambda: [],
        interval_s=1,
        timeout_s=1,
    )
    health._reason = None
    assert health.away is None
    health._answered_s -= 10
    assert health.away is not None and health.ends is None


def test_a_question_that_fails_of_anything_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([OSError(22, "Invalid argument")])

    def ask(_: KafkaHealth) -> dict[Partition, int]:
        for error in answers:
            raise error
        return {}

    monkeypatch.setattr(KafkaHealth, "_ask_ends", ask)
    client = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    with KafkaHealth(client, list, interval_s=0.01) as health:
        for _ in looks("an answer"):
            if health.away is None:
                break
        assert health._thread.is_alive()


def test_a_peer_that_leaves_is_no_failed_session() -> None:
    metrics = DriverMetrics()
    metrics.count(SessionFailed(b"peer", 1, "p2panda.session.disconnected", "the link went down"))
    metrics.count(SessionFailed(b"peer", 2, "p2panda.session.timeout", "nothing for 60 s"))
    assert metrics.sessions_failed == {"p2panda.session.timeout": 1} and metrics.sessions_left == 1


def test_of_many_like_lines_one_an_interval_is_logged_with_the_number_of_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = LimitedLog(logging.getLogger("limited"), interval_s=3600)
    for number in range(5):
        log.warning("peer %d is closed", number)
    log.warning("another")
    log._logged_s.clear()
    log.warning("peer %d is closed", 5)
    log.warning("peer %d is closed", 6)
    assert caplog.messages == ["peer 0 is closed", "another", "peer 5 is closed (and 4 more like this)"]
