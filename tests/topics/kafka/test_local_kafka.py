"""Where Kafka is when a program gives no address; and what librdkafka logs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from culm_topics.errors import KafkaFailure, KafkaSettingsError
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.client_errors import CLIENT_LOG
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import ADDRESS_FILE, local_kafka, named_kafka
from culm_topics.logs.consumer import LogConsumer


@pytest.fixture(autouse=True)
def no_kafka_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CULM_BOOTSTRAP", "CULM_PREFIX", "CULM_KAFKA", "CULM_STACK__NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CULM_STACK__DIRECTORY", str(tmp_path))


def test_the_environment_names_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("CULM_PREFIX", "mine.")
    monkeypatch.setenv("CULM_KAFKA", '{"client.id": "me"}')
    found = local_kafka()
    assert (found.bootstrap, found.prefix, found.options) == ("kafka:9092", "mine.", {"client.id": "me"})


def test_the_environment_holds_for_an_address_too_and_not_for_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "kafka-1:9092")
    monkeypatch.setenv("CULM_PREFIX", "mine.")
    named = named_kafka("kafka-2:9092")
    assert (named.bootstrap, named.prefix) == ("kafka-2:9092", "mine.")
    settings = KafkaSettings(bootstrap="kafka-3:9092")
    assert named_kafka(settings) is settings
    assert named_kafka(None).bootstrap == "kafka-1:9092"


def test_else_it_is_the_local_stack_that_runs(tmp_path: Path) -> None:
    (tmp_path / ADDRESS_FILE).write_text("127.0.0.1:20001\n")
    assert local_kafka().bootstrap == "127.0.0.1:20001"


def test_without_either_the_error_says_what_to_do() -> None:
    with pytest.raises(KafkaSettingsError) as caught:
        LogConsumer()
    assert caught.value.hint is not None
    assert "culm stack up" in caught.value.hint


@pytest.mark.parametrize("wrong", ["[]", "{", '{"acks": "0"}'])
def test_wrong_settings_are_one_error(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("CULM_KAFKA", wrong)
    with pytest.raises(KafkaSettingsError):
        local_kafka()


def test_a_consumer_without_a_broker_is_one_error_with_a_hint(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KafkaFailure) as caught:
        LogConsumer("127.0.0.1:1")
    assert caught.value.hint is not None
    assert capfd.readouterr() == ("", "")


def test_what_librdkafka_logs_comes_once_of_each_kind(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    client = kafka.consumer(KafkaSettings(bootstrap="127.0.0.1:1"), group_id="g")
    client.subscribe(["logs"])
    with caplog.at_level(logging.WARNING, CLIENT_LOG.name):
        while not caplog.records:
            client.consume(1, 0.1)
        client.consume(1, 1.0)
    client.close()
    kinds = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert len(kinds) == len(set(kinds))
    assert capfd.readouterr() == ("", "")
