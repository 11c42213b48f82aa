"""`culm support-bundle`: what is in the archive, what is missing and why, and that no secret is in it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from culm_infra.cli.root import run
from culm_infra.support.bundle import MAX_PART_CHARACTERS, Part, write
from culm_infra.support.redaction import Redaction
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.process_status import ProcessStatus
from culm_topics.status_socket import status_socket

MARK = "xMARKEDx"
PEM = f"-----BEGIN PRIVATE KEY-----\n{MARK}pemA\n{MARK}pemB\n-----END PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def _place(no_settings_from_outside: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CULM_STACK__DIRECTORY", str(tmp_path / "stack"))
    monkeypatch.chdir(tmp_path)


def unpacked(archive: Path) -> dict[str, str]:
    """The files of an archive by their names."""
    with tarfile.open(archive) as opened:
        files = {}
        for member in opened.getmembers():
            content = opened.extractfile(member)
            assert content is not None and member.name.startswith("culm-support/")
            files[member.name.removeprefix("culm-support/")] = content.read().decode()
    return files


@contextmanager
def served_metrics(text: str, host: str = "127.0.0.1") -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer((host, 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_no_secret_is_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key_file = tmp_path / "password"
    key_file.write_text(f"{MARK}file")
    settings = tmp_path / "culm.toml"
    settings.write_text(
        'bootstrap = "127.0.0.1:1"\n[kafka]\n"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\n'
        f'"ssl.key.pem" = """{PEM}"""\n"java.sasl.jaas.config" = "x required password={MARK}jaas;"\n'
        f'[job]\ncheckpoints = "s3a://user:{MARK}url@bucket/x"\n'
    )
    monkeypatch.setenv("CULM_CONFIG", str(settings))
    monkeypatch.setenv("CULM_KAFKA__SASL_PASSWORD_FILE", str(key_file))
    monkeypatch.setenv("CULM_KAFKA__SASL_OAUTHBEARER_CLIENT_SECRET", f"{MARK}client")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{MARK}aws")
    logs = tmp_path / "stack" / "logs"
    logs.mkdir(parents=True)
    (tmp_path / "stack" / "connector").mkdir()
    (tmp_path / "stack" / "connector" / "key").write_text(PEM)
    (logs / "link.log").symlink_to(tmp_path / "stack" / "connector" / "key")
    (logs / "spark-x-all.log").symlink_to(tmp_path / "stack" / "connector" / "key")
    secrets = f"{MARK}file {MARK}client {MARK}aws"
    lines = (
        f"INFO said {secrets}",
        f"Authorization: Bearer {MARK}.bearer",
        f'"sasl.password": "{MARK}json"',
        f"api_key={MARK}query",
        PEM,
        "INFO the end",
    )
    (logs / "broker.log").write_text("\n".join(lines) + "\n")
    with served_metrics(f'culm_up{{token="{MARK}label"}} 1\n') as port:
        document = ProcessStatus("connector", KafkaSettings(bootstrap="x:1")).document(
            "running", [], metrics_port=port, note=f"{MARK}client password={MARK}status"
        )
        with status_socket(tmp_path / "stack" / "connector" / "status.sock", lambda: document):
            assert run(["support-bundle", "-o", "out.tar.gz", "--timeout", "1"]) == 0
    files = unpacked(tmp_path / "out.tar.gz")
    assert {"settings.json", "doctor.jsonl", "status/connector.json", "metrics/connector.txt"} <= files.keys()
    assert "INFO the end" in files["logs/broker.log"]
    assert "SASL_SSL" in files["settings.json"], "what is no secret stays"
    assert [name for name, text in files.items() if MARK in text] == []
    for name in ("settings.json", "status/connector.json"):
        json.loads(files[name])
    assert "topics.jsonl: 127.0.0.1:1" in files["missing.txt"]
    assert not [name for name in files if "spark" in name or "link" in name], "no link is followed"


def test_wrong_settings_and_unknown_variables_cost_parts_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CULM_KAFKKA__SASL_PASSWORD", f"{MARK}unknown")
    monkeypatch.setenv("CULM_TOKENN", f'{{"a": "{MARK}inner"}}')
    monkeypatch.setenv("CULM_KAFKA", json.dumps({"sasl.password": f"{MARK}json"}))
    assert run(["support-bundle", "-o", "out.tar.gz"]) == 0
    files = unpacked(tmp_path / "out.tar.gz")
    wrong = json.loads(files["settings.json"])["wrong"]
    assert {line.partition(":")[0] for line in wrong} == {"CULM_KAFKKA__SASL_PASSWORD", "CULM_TOKENN"}
    assert "topics.jsonl: the settings are wrong" in files["missing.txt"]
    assert json.loads(files["versions.json"])["culm"]
    assert [name for name, text in files.items() if MARK in text] == []


def test_the_archive_has_its_default_name_is_private_and_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["support-bundle", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    (archive,) = tmp_path.glob("culm-support-*.tar.gz")
    assert row["file"] == str(archive)
    assert archive.stat().st_mode & 0o777 == 0o600
    assert set(row["missing"]) >= {"topics.jsonl", "status/connector.json", "status/job.json", "logs"}
    assert run(["support-bundle", "-o", str(archive)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_a_part_is_bounded_and_cut_after_the_redaction(tmp_path: Path) -> None:
    text = "password=" + MARK * MAX_PART_CHARACTERS + " " + "x" * (MAX_PART_CHARACTERS + 5)
    write(tmp_path / "a.tar.gz", [Part("long", lambda: text)], Redaction(()))
    content = unpacked(tmp_path / "a.tar.gz")["long"]
    assert content.startswith("(the first ") and MARK not in content
    assert len(content) < MAX_PART_CHARACTERS + 100


def test_metrics_of_a_connector_are_read_from_the_host_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CULM_CONNECTOR__METRICS_HOST", "127.0.0.2")
    with served_metrics("culm_up 1\n", "127.0.0.2") as port:
        document = ProcessStatus("connector", KafkaSettings(bootstrap="x:1")).document(
            "running", [], metrics_port=port
        )
        with status_socket(tmp_path / "stack" / "connector" / "status.sock", lambda: document):
            assert run(["support-bundle", "-o", "out.tar.gz", "--timeout", "1"]) == 0
    assert unpacked(tmp_path / "out.tar.gz")["metrics/connector.txt"] == "culm_up 1\n"


@pytest.mark.kafka
def test_the_topics_are_listed_with_their_offsets(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    admin.create(KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2))
    arguments = ["--bootstrap", kafka_bootstrap, "--prefix", topic_prefix]
    assert run(["support-bundle", "-o", "out.tar.gz", *arguments]) == 0
    rows = [json.loads(line) for line in unpacked(tmp_path / "out.tar.gz")["topics.jsonl"].splitlines()]
    (logs,) = [row for row in rows if row["topic"] == f"{topic_prefix}logs"]
    assert logs["exists"] and logs["offsets"] == {"0": [0, 0], "1": [0, 0]}
