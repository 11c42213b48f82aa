"""A wrong or unknown setting is named with its place, in plain words, and no secret is repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from culm_infra.cli.kit.output import EXIT_USAGE
from culm_infra.cli.root import app, run
from culm_infra.errors import SettingsError
from culm_infra.settings import load
from culm_infra.settings.loading import examine
from culm_infra.settings.names import PROGRAM_VARIABLES

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def wrong(file: Path | None = None, **flags: Any) -> str:
    with pytest.raises(SettingsError) as raised:
        load(config=file, **flags)
    return str(raised.value)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "edge.toml"


def test_an_unknown_variable_is_refused_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_BOOTSTRP", "x")
    assert wrong() == "CULM_BOOTSTRP: no such setting; did you mean CULM_BOOTSTRAP?"


def test_one_underscore_for_two_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_CONNECTOR_LISTEN", "127.0.0.1:1")
    assert "did you mean CULM_CONNECTOR__LISTEN?" in wrong()


def test_an_unknown_setting_of_a_file_is_refused_with_line_and_suggestion(toml: Path) -> None:
    toml.write_text("# edge\n[connector]\nlisen = 1\n")
    assert wrong(toml) == f"{toml}:3: connector.lisen: no such setting; did you mean connector.listen?"


def test_a_setting_in_the_wrong_table_is_found_in_the_right_one(toml: Path) -> None:
    toml.write_text("shards = 3\n")
    assert wrong(toml) == f"{toml}:1: shards: no such setting; did you mean job.shards?"


def test_an_unknown_setting_below_a_list_of_tables_is_refused(toml: Path) -> None:
    toml.write_text(
        f'[connector.dag.http]\n[[connector.dag.http.tokens]]\nsha256 = "{"0" * 64}"\nreads = ["*"]\n'
    )
    assert wrong(toml).startswith(f"{toml}:4: connector.dag.http.tokens[0].reads: no such setting; did you")


@pytest.mark.parametrize("name", PROGRAM_VARIABLES)
def test_the_variables_of_programs_are_known(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name != "CULM_CONFIG":
        monkeypatch.setenv(name, "anything")
    load()


def test_the_variables_of_a_service_of_kubernetes_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CULM_CONNECTOR_PORT", "tcp://10.0.0.1:4455")
    assert "CULM_CONNECTOR_PORT: no such setting" in wrong()
    for name in ("SERVICE_HOST", "SERVICE_PORT", "PORT_4455_TCP", "PORT_4455_TCP_ADDR"):
        monkeypatch.setenv(f"CULM_CONNECTOR_{name}", "10.0.0.1")
    load()


def test_an_address_without_a_host_is_refused_with_file_line_and_key(toml: Path) -> None:
    toml.write_text('[connector]\nlisten = "4455"\n')
    assert wrong(toml).startswith(f"{toml}:2: connector.listen: '4455' is no")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('connector.dial = ["10.0.0.1:1", "x"]', "connector.dial[1]: 'x' is no"),
        ('connector.dial = ["/ip4/1.2.3.4/udp/x"]', "connector.dial[0]: "),
        ('connector.listen_libp2p = "x"', "connector.listen_libp2p: 'x' is no"),
        ('bootstrap = "kafka:1,http://"', "bootstrap: 'http://' is not the address of a broker"),
        ('job.shards = "many"', "job.shards: must be a whole number, not 'many'"),
        ("job.shards = 0", "job.shards: must be at least 1, not 0"),
        ("job.quick_start = 7", "job.quick_start: must be true or false, not 7"),
        ('job.verify = "some"', "job.verify: must be 'full' or 'chain', not 'some'"),
        ("job = 3", "job: must be a table, not 3"),
        ("connector.dial = 3", "connector.dial: must be a list, not 3"),
        ("connector.transport.datagram_bytes = 3", "must be at least 1200 or 'auto', not 3"),
        ("job.metrics_port = {all = 99999}", "job.metrics_port.all: must be at most 65535, not 99999"),
        ("connector.dag.http = {tokens = [{}]}", "connector.dag.http.tokens[0].sha256: is required"),
        ("connector.tcp.send_resume_bytes = 99999999", "connector.tcp: send_resume_bytes must not be above"),
        ("topic_config = {nowhere = {}}", "topic_config.nowhere: 'nowhere' is not a topic of the catalogue"),
        ("kafka.acks = 1", "kafka.acks: acks cannot be set: it is `all`"),
    ],
)
def test_a_wrong_value_is_named_in_plain_words(toml: Path, line: str, words: str) -> None:
    toml.write_text(f"{line}\n")
    message = wrong(toml)
    assert message.startswith(f"{toml}:1: ")
    assert words in message
    assert not {"Value error", "Input should", "Extra inputs", "valid"} & {*message.split(": ")}
    assert "Input should" not in message and "Value error" not in message


def test_a_wrong_value_of_a_variable_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_CONNECTOR__LISTEN", "4455")
    assert wrong().startswith("CULM_CONNECTOR__LISTEN: connector.listen: '4455' is no")


def test_a_list_in_a_variable_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_CONNECTOR__DIAL", '["10.0.0.1:1"]')
    assert load().connector.dial == ["10.0.0.1:1"]
    monkeypatch.setenv("CULM_CONNECTOR__DIAL", "10.0.0.1:1")
    assert wrong().startswith("CULM_CONNECTOR__DIAL: connector.dial: a list or table in a variable is JSON")


def test_all_wrong_settings_are_named_at_once(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml.write_text('prefx = "x."\n[job]\nshards = 0\n')
    monkeypatch.setenv("CULM_CONNECTOR__TCP__IDLE_TIMEOUT_S", "-1")
    places = [finding.place for finding in examine(toml).findings]
    assert sorted(places) == sorted([f"{toml}:1", f"{toml}:3", "CULM_CONNECTOR__TCP__IDLE_TIMEOUT_S"])


def test_a_wrong_flag_is_named_and_the_exit_status_is_that_of_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["connector", "run", "--listen", "4455", "--bootstrap", "127.0.0.1:1"]) == EXIT_USAGE
    assert "--listen: connector.listen: '4455' is no" in capsys.readouterr().err


def test_a_wrong_file_is_exit_status_2(toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml.write_text("job.shards = 0\n")
    assert run(["settings", "show", "--config", str(toml)]) == EXIT_USAGE
    assert f"{toml}:1: job.shards: must be at least 1" in capsys.readouterr().err
    assert run(["settings", "show", "--config", f"{toml}.missing"]) == EXIT_USAGE


@pytest.mark.parametrize(
    "text",
    [
        '[kafka]\n"sasl.password" = ["hunter2"]\n',
        '[kafka]\nsasl.password.x = "hunter2"\nacks = "hunter2"\n',
        'kafka = "hunter2"\n',
        'connector.dag.http.tokens = [{sha256 = "hunter2"}]\n',
    ],
)
def test_no_secret_is_repeated(toml: Path, text: str) -> None:
    toml.write_text(text)
    assert "hunter2" not in wrong(toml)


# Values from files.


def test_a_variable_may_name_a_file_that_has_the_value(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    monkeypatch.setenv("CULM_KAFKA__SASL_PASSWORD_FILE", str(secret))
    monkeypatch.setenv("CULM_KAFKA__LOG_LEVEL", "3")
    settings = load()
    assert settings.kafka == {"sasl.password": "hunter2", "log_level": "3"}
    shards = tmp_path / "shards"
    shards.write_text("7\r\n")
    monkeypatch.setenv("CULM_JOB__SHARDS_FILE", str(shards))
    assert load().job.shards == 7


def test_a_value_and_its_file_are_not_both_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CULM_PREFIX", "x.")
    monkeypatch.setenv("CULM_PREFIX_FILE", str(tmp_path / "missing"))
    assert wrong() == "CULM_PREFIX, CULM_PREFIX_FILE: prefix: both variables are set; unset one"
    monkeypatch.delenv("CULM_PREFIX")
    assert wrong().startswith("CULM_PREFIX_FILE: prefix: cannot read the file")


def test_properties_of_kafka_need_no_quotes(toml: Path) -> None:
    toml.write_text('[kafka]\nsecurity.protocol = "SSL"\nsocket.keepalive.enable = true\n')
    assert load(config=toml).kafka == {"security.protocol": "SSL", "socket.keepalive.enable": "true"}


def test_settings_show_names_the_source_of_each_value(
    toml: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    monkeypatch.setenv("CULM_KAFKA__SASL_PASSWORD_FILE", str(secret))
    monkeypatch.setenv("CULM_JOB__SHARDS", "3")
    toml.write_text('prefix = "x."\n')
    shown = CliRunner().invoke(app, ["settings", "show", "--json", "--config", str(toml)])
    rows = {
        row["setting"]: (row["value"], row["source"]) for row in map(json.loads, shown.stdout.splitlines())
    }
    assert rows["prefix"] == ("x.", f"{toml}:1")
    assert rows["job.shards"] == (3, "CULM_JOB__SHARDS")
    assert rows["job.verify"] == ("full", "default")
    assert rows["kafka.sasl.password"] == ("********", "CULM_KAFKA__SASL_PASSWORD_FILE")
    assert "hunter2" not in shown.output
