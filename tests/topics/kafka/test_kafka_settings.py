"""Settings of the Kafka clients: secrets stay secret, and Spark gets the same properties in Java's words."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import readers, spec, topic_name, writers
from culm_topics.errors import KafkaFailure, KafkaSettingsError
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.client_errors import CLIENT_LOG
from culm_topics.kafka.clients import FIXED, KafkaSettings, is_secret, spark_options
from culm_topics.kafka.java_client import with_pem_texts
from culm_topics.kafka.local import ADDRESS_FILE, local_kafka, named_kafka
from culm_topics.logs.consumer import LogConsumer


def settings(**options: str) -> KafkaSettings:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return KafkaSettings(bootstrap="kafka.example:9092", options=named)


def java(options: dict[str, str]) -> dict[str, str]:
    return spark_options(KafkaSettings(bootstrap="kafka.example:9092", options=options))


SECRETS = {
    "sasl.password": "hunter2",
    "ssl.key.password": "hunter2",
    "ssl.key.pem": "hunter2",
    "ssl.keystore.password": "hunter2",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.config": "hunter2",
    "java.sasl.jaas.config": "hunter2",
    "java.ssl.keystore.key": "hunter2",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_never_shown(name: str) -> None:
    kafka_settings = KafkaSettings(
        bootstrap="kafka.example:9092", options={name: "hunter2", "client.id": "me"}
    )
    assert is_secret(name)
    for shown in (repr(kafka_settings), str(kafka_settings), str(kafka_settings.redacted())):
        assert "hunter2" not in shown
        assert "client.id" in shown


def test_where_tokens_come_from_is_no_secret() -> None:
    name = "sasl.oauthbearer.token.endpoint.url"
    assert not is_secret(name) and not is_secret(f"java.{name}")
    assert (
        KafkaSettings(bootstrap="b:1", options={name: "https://id/"}).redacted()["options"][name]
        == "https://id/"
    )


def test_a_wrong_setting_does_not_show_the_others() -> None:
    with pytest.raises(ValidationError) as caught:
        KafkaSettings.model_validate({"bootstrap": "", "options": {"sasl.password": ["hunter2"]}})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", FIXED)
def test_what_correctness_rests_on_cannot_be_set(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        KafkaSettings(bootstrap="kafka.example:9092", options={name: "x"})


def test_options_take_the_values_of_configuration_files() -> None:
    kafka_settings = KafkaSettings.model_validate(
        {"bootstrap": "h:1", "options": {"linger.ms": 5, "socket.nagle.disable": True}}
    )
    assert kafka_settings.options == {"linger.ms": "5", "socket.nagle.disable": "true"}


def test_clients_are_made_without_a_broker() -> None:
    kafka_settings = settings(linger__ms="7", client__id="me", java__linger__ms="3")
    kafka.producer(kafka_settings)
    kafka.producer(kafka_settings, bulk=True)
    kafka.consumer(kafka_settings, group_id="g").close()
    kafka.admin(kafka_settings)


def test_sasl_without_a_mechanism_is_refused_with_the_reason() -> None:
    with pytest.raises(KafkaSettingsError, match="GSSAPI"):
        kafka.producer(settings(security__protocol="SASL_SSL"))


def test_topic_names_partitions_and_properties_follow_the_settings() -> None:
    kafka_settings = KafkaSettings(
        bootstrap="h:1",
        prefix="edge.",
        partitions=3,
        min_insync_replicas=2,
        topic_config={"logs": {"remote.storage.enable": "true"}},
    )
    assert kafka_settings.topic("logs") == "edge.logs" == topic_name("edge.", "logs")
    assert kafka_settings.partitions_of(spec("logs")) == 3
    assert kafka_settings.partitions_of(spec("announcements")) == 1
    assert kafka_settings.config_of(spec("logs"))["remote.storage.enable"] == "true"
    assert kafka_settings.config_of(spec("logs"))["min.insync.replicas"] == "2"
    assert "remote.storage.enable" not in kafka_settings.config_of(spec("entries"))
    with pytest.raises(ValidationError, match="nowhere"):
        KafkaSettings(bootstrap="h:1", topic_config={"nowhere": {}})


def test_the_catalogue_keeps_its_own_rules() -> None:
    for topic in CATALOGUE:
        assert topic.config["max.message.bytes"] == str(4 * 1024 * 1024)
        assert topic.config["cleanup.policy"] == ("compact" if topic.cleanup == "compact" else "delete")
        assert ("retention.ms" in topic.config) == (topic.cleanup != "compact")
        assert writers(topic)
        assert readers(topic)
    assert spec("logs").config["retention.ms"] == "-1"
    with pytest.raises(KeyError):
        topic_name("culm.", "nowhere")


def test_spark_is_set_up_for_records_as_large_as_the_topics_take() -> None:
    options = java({})
    assert options["kafka.bootstrap.servers"] == "kafka.example:9092"
    assert options["kafka.max.request.size"] == spec("logs").config["max.message.bytes"]
    assert options["kafka.max.partition.fetch.bytes"] == spec("logs").config["max.message.bytes"]
    assert options["kafka.acks"] == "all"


def test_user_and_password_become_a_jaas_line() -> None:
    options = java(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'with "quotes" and \\',
        }
    )
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="with \\"quotes\\" and \\\\";'
    )
    assert "kafka.sasl.password" not in options


def test_pem_files_and_texts_become_stores(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"-----BEGIN {name}-----")
    from_files = java({f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")})
    from_texts = java({f"ssl.{name}.pem": f"-----BEGIN {name}-----" for name in ("ca", "certificate", "key")})
    assert from_files == from_texts
    assert from_files["kafka.ssl.truststore.type"] == "PEM"
    assert from_files["kafka.ssl.truststore.certificates"] == "-----BEGIN ca-----"
    assert from_files["kafka.ssl.keystore.type"] == "PEM"
    assert from_files["kafka.ssl.keystore.certificate.chain"] == "-----BEGIN certificate-----"
    assert from_files["kafka.ssl.keystore.key"] == "-----BEGIN key-----"


def test_oauthbearer_names_its_login_module() -> None:
    options = java(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        }
    )
    assert 'clientId="me" clientSecret="s"' in options["kafka.sasl.jaas.config"]
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://id.example/token"


@pytest.mark.parametrize(
    "options",
    [
        {"ssl.providers": "x"},
        {"enable.ssl.certificate.verification": "false"},
        {"ssl.certificate.pem": "only half"},
        {"ssl.ca.location": "/nowhere/ca.pem"},
        {"sasl.mechanism": "GSSAPI", "sasl.username": "x"},
        {"sasl.mechanism": "OAUTHBEARER"},
    ],
)
def test_what_java_has_no_word_for_is_an_error_that_names_it(options: dict[str, str]) -> None:
    with pytest.raises(KafkaSettingsError) as caught:
        java(options)
    assert next(iter(options)).split(".")[0] in str(caught.value) or "OAUTHBEARER" in str(caught.value)


def test_java_properties_pass_verbatim_and_win() -> None:
    options = java(
        {"linger.ms": "5", "java.linger.ms": "9", "java.some.thing": "x", "queued.min.messages": "1"}
    )
    assert options["kafka.linger.ms"] == "9"
    assert options["kafka.some.thing"] == "x"
    assert "kafka.queued.min.messages" not in options
    assert java({"ssl.providers": "x", "java.ssl.providers": "y"})["kafka.ssl.providers"] == "y"


def test_names_and_sizes_are_translated() -> None:
    options = java({"fetch.message.max.bytes": "100", "message.max.bytes": "200", "fetch.wait.max.ms": "3"})
    assert options["kafka.max.partition.fetch.bytes"] == "100"
    assert options["kafka.max.request.size"] == "200"
    assert options["kafka.fetch.max.wait.ms"] == "3"


def test_clients_on_other_machines_need_no_file_of_this_one(tmp_path: Path) -> None:
    options = {"client.id": "me", "ssl.ca.pem": "authority"}
    files = {"ssl.certificate": "certificate", "ssl.key": "private key"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = {f"{name}.location": str(tmp_path / name) for name in files}
    texts = {f"{name}.pem": text for name, text in files.items()}
    assert with_pem_texts(options | paths) == options | texts
    assert with_pem_texts({"client.id": "me"}) == {"client.id": "me"}
    with pytest.raises(KafkaSettingsError, match=r"ssl\.key\.location"):
        with_pem_texts({"ssl.key.location": "/nowhere/key.pem"})


# Where Kafka is when a program gives no address; and what librdkafka logs.


@pytest.fixture(autouse=True)
def no_kafka_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CULM_BOOTSTRAP", "CULM_PREFIX", "CULM_KAFKA", "CULM_STACK__NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CULM_STACK__DIRECTORY", str(tmp_path))


def test_the_environment_names_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("CULM_PREFIX", "mine.")
    monkeypatch.setenv("CULM_KAFKA", '{"client.id": "me"}')
    kafka_settings = local_kafka()
    assert (kafka_settings.bootstrap, kafka_settings.prefix, kafka_settings.options) == (
        "kafka:9092",
        "mine.",
        {"client.id": "me"},
    )


def test_a_property_may_have_a_variable_of_its_own_and_a_secret_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    monkeypatch.setenv("CULM_BOOTSTRAP_FILE", str(tmp_path / "address"))
    (tmp_path / "address").write_text("kafka:9092")
    monkeypatch.setenv("CULM_KAFKA", '{"client.id": "me", "sasl.username": "old"}')
    monkeypatch.setenv("CULM_KAFKA__SASL_USERNAME", "new")
    monkeypatch.setenv("CULM_KAFKA__SASL_PASSWORD_FILE", str(secret))
    monkeypatch.setenv("CULM_KAFKA__LOG_LEVEL", "3")
    kafka_settings = local_kafka()
    assert kafka_settings.bootstrap == "kafka:9092"
    assert kafka_settings.options == {
        "client.id": "me",
        "sasl.username": "new",
        "sasl.password": "s3cret",
        "log_level": "3",
    }


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"CULM_KAFKA": "[]"}, "CULM_KAFKA"),
        ({"CULM_KAFKA__SASL_PASSWORD_FILE": "/nowhere"}, "CULM_KAFKA__SASL_PASSWORD_FILE"),
        ({"CULM_PREFIX": "a.", "CULM_PREFIX_FILE": "/nowhere"}, "CULM_PREFIX_FILE"),
    ],
)
def test_a_variable_that_is_wrong_is_named(
    variables: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(KafkaSettingsError, match=named):
        local_kafka("kafka:9092")


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


def test_an_empty_prefix_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_PREFIX", "")
    assert local_kafka("kafka:9092").prefix == ""


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
