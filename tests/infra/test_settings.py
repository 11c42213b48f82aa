"""Flag, then environment, then file; secrets are refused as flags and redacted when shown."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from culm_infra.errors import SettingsError
from culm_infra.settings import load, named_values, parse_kafka_options, redacted, resolve_kafka
from culm_topics.catalogue.topics import spec

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "culm.toml").write_text('bootstrap = "file:1"\n[job]\nshards = 3\nverify = "chain"\n')
    assert load().bootstrap == "file:1"
    monkeypatch.setenv("CULM_BOOTSTRAP", "environment:1")
    monkeypatch.setenv("CULM_JOB__SHARDS", "5")
    settings = load(job={"shards": 7, "master": None})
    assert settings.bootstrap == "environment:1"
    assert (settings.job.shards, settings.job.verify) == (7, "chain")
    assert load(bootstrap="flag:1").bootstrap == "flag:1"


def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_JOB__SHARDS", "many")
    with pytest.raises(SettingsError, match=r"job\.shards"):
        load()


def test_an_unknown_name_in_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "culm.toml").write_text("[job]\nshard = 3\n")
    with pytest.raises(SettingsError, match=r"job\.shard"):
        load()


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "culm.toml").write_bytes('prefix = "é"'.encode("latin-1"))
    with pytest.raises(SettingsError, match=r"culm\.toml is not UTF-8 at byte 10"):
        load()


def test_a_malformed_variable_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_KAFKA", '{"sasl.password": "hunter2"')
    with pytest.raises(SettingsError, match="kafka") as raised:
        load()
    assert "hunter2" not in f"{raised.value}{raised.value.hint}"


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "culm.toml").write_text("= 3")
    with pytest.raises(SettingsError, match=r"culm\.toml is not TOML"):
        load()


def test_a_config_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_CONFIG", "nowhere.toml")
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        load()


def test_secrets_are_redacted_when_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_KAFKA", '{"sasl.password": "open sesame", "client.id": "edge"}')
    shown = redacted(load())
    assert shown["kafka"] == {"sasl.password": "********", "client.id": "edge"}


def test_kafka_options_are_parsed_and_secrets_are_refused() -> None:
    assert parse_kafka_options(["security.protocol=SSL", "a=b=c"]) == {"security.protocol": "SSL", "a": "b=c"}
    with pytest.raises(SettingsError, match=r"sasl\.password is a secret"):
        parse_kafka_options(["sasl.password=x"])


@pytest.mark.parametrize("pair", ["security.protocol", "=SSL", ""])
def test_a_pair_without_a_name_or_a_value_is_an_error_that_names_the_flag(pair: str) -> None:
    with pytest.raises(SettingsError, match=r"--kafka-option .* is not NAME=VALUE"):
        parse_kafka_options([pair])
    with pytest.raises(SettingsError, match=r"--spark-option .* is not NAME=VALUE") as refusal:
        named_values("--spark-option", ["a=b", pair], example="spark.ui.enabled=true")
    assert refusal.value.hint == "for example spark.ui.enabled=true"


def test_what_a_topic_is_made_with_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "kafka.example:9092")
    monkeypatch.setenv("CULM_MIN_INSYNC_REPLICAS", "2")
    monkeypatch.setenv("CULM_TOPIC_CONFIG", '{"logs": {"remote.storage.enable": "true"}}')
    logs = resolve_kafka(load()).config_of(spec("logs"))
    assert (logs["min.insync.replicas"], logs["remote.storage.enable"]) == ("2", "true")


def test_a_topic_of_the_settings_must_be_in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "kafka.example:9092")
    monkeypatch.setenv("CULM_TOPIC_CONFIG", '{"nowhere": {}}')
    with pytest.raises(SettingsError, match="nowhere"):
        resolve_kafka(load())


def test_the_limits_of_a_connector_can_be_set_one_by_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "culm.toml").write_text(
        "[connector.transport]\nmax_connections = 7\n[connector.p2panda.driver]\nmax_staged_items = 9\n"
    )
    monkeypatch.setenv("CULM_CONNECTOR__TRANSPORT__IDLE_TIMEOUT_S", "12.5")
    section = load(connector={"transport": {"datagram_bytes": "1452"}}).connector
    transport = section.transport
    assert (transport.max_connections, transport.idle_timeout_s, transport.datagram_bytes) == (7, 12.5, 1452)
    assert (section.p2panda.driver.max_staged_items, section.p2panda.driver.max_sessions_per_peer) == (9, 64)
    assert load().connector.transport.datagram_bytes == "auto"


def test_a_wrong_limit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_CONNECTOR__P2PANDA__DRIVER__MAX_STAGED_ITEMS", "0")
    with pytest.raises(SettingsError, match=r"connector\.p2panda\.driver\.max_staged_items"):
        load()


def test_every_limit_of_a_connector_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {**load().connector.p2panda.driver.model_dump(), **load().connector.transport.model_dump()}
    off = [name for name, value in limits.items() if value == 0]
    assert off == []


def test_the_operating_guide_tells_the_defaults_in_force() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9.]+)\.(\w+)` \| (\d\S*) \|", guide, re.MULTILINE)
    assert len(rows) > 15
    connector = load().connector
    for section, name, default in rows:
        assert getattr(attrgetter(section)(connector), name) == float(default), name
