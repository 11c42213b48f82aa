"""An error about Kafka names what failed, and a cluster that has fenced its brokers is waited for."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from culm_topics.errors import KafkaFailure
from culm_topics.kafka import clients as kafka
from culm_topics.kafka import cluster
from culm_topics.kafka.client_errors import ReportedErrors
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.cluster import await_brokers


def failure(bootstrap: str, seconds: float = 2, **options: Any) -> KafkaFailure:
    named = {name.replace("_", "."): value for name, value in options.items()}
    client = kafka.admin(KafkaSettings(bootstrap=bootstrap, options={"log_level": "0", **named}))
    with pytest.raises(KafkaFailure) as raised:
        await_brokers(client, seconds)
    return raised.value


def test_a_refused_connection_is_named_with_its_address() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        error = failure(address, 0.5)
    text = str(error)
    assert "Connection refused" in text and address in text
    assert error.passes
    assert "in state" not in text, "what only librdkafka's authors understand is left out"


@pytest.mark.kafka
def test_tls_and_sasl_are_named(kafka_bootstrap: str) -> None:
    error = failure(kafka_bootstrap, security_protocol="SSL")
    assert not error.passes
    assert "TLS: " in str(error) and error.hint is not None and "ssl.ca.location" in error.hint
    sasl: dict[str, Any] = {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "hunter2"}
    error = failure(kafka_bootstrap, security_protocol="SASL_PLAINTEXT", **sasl)
    assert "SASL: " in str(error) and error.hint is not None and "sasl.mechanism" in error.hint
    assert "hunter2" not in str(error)
    assert not error.passes


def test_the_most_telling_error_is_taken_and_told_once() -> None:
    errors = ReportedErrors()
    errors.note(
        KafkaError(
            KafkaError._TRANSPORT,
            "b:1/bootstrap: Connect to ipv4#b:1 failed: Connection refused (after 0ms in state CONNECT)",
        )
    )
    errors.note(
        KafkaError(
            KafkaError._RESOLVE,
            "b:1/bootstrap: Failed to resolve (after 3ms in state CONNECT, 2 identical error(s) suppressed)",
        )
    )
    errors.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    cause = errors.take()
    assert cause is not None and cause.text == "DNS: b:1/bootstrap: Failed to resolve"
    assert errors.take() is None


# A cluster that has fenced its brokers is waited for before anything is asked about its topics.


class Client:
    """Answers each request for metadata with the next of these: brokers, or an error."""

    def __init__(self, *answers: dict[int, str] | KafkaException) -> None:
        self.answers = list(answers)

    def list_topics(self, timeout: float) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KafkaException):
            raise answer
        return SimpleNamespace(brokers=answer, cluster_id="the cluster")


AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_brokers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_RETRY_SECONDS", 0)
    assert cluster.await_brokers(Client({}, AWAY, {}, {1: "here"}), 10) == "the cluster"


def test_a_cluster_without_brokers_is_a_failure_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_RETRY_SECONDS", 0)
    with pytest.raises(KafkaFailure, match="names none"):
        cluster.await_brokers(Client({}), 0.01)


@pytest.mark.parametrize(("answer", "expected"), [({}, False), (AWAY, False), ({1: "here"}, True)])
def test_a_glance_says_whether_there_are_brokers(answer: dict[int, str], expected: bool) -> None:
    assert cluster.has_brokers(Client(answer), 1) is expected
