"""A cluster that has fenced its brokers is waited for before anything is asked about its topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from culm_topics.errors import KafkaFailure
from culm_topics.kafka import cluster


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


@pytest.mark.parametrize(("answer", "found"), [({}, False), (AWAY, False), ({1: "here"}, True)])
def test_a_glance_says_whether_there_are_brokers(answer: dict[int, str], found: bool) -> None:
    assert cluster.has_brokers(Client(answer), 1) is found
