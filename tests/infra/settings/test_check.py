"""``culm settings check``: names, values and files, all at once, without starting anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from culm_infra.cli.kit.output import EXIT_USAGE
from culm_infra.cli.root import run

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def problems(capsys: pytest.CaptureFixture[str], file: Path) -> dict[str, tuple[str, str]]:
    """Every finding, by the name of its setting: place and problem."""
    assert run(["settings", "check", str(file), "--json"]) == EXIT_USAGE
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {row["setting"]: (row["place"], row["problem"]) for row in rows}


def test_settings_in_order_are_exit_status_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text('[connector]\nlisten = "127.0.0.1:4455"\n')
    assert run(["settings", "check", str(file)]) == 0
    assert run(["settings", "check", "--config", str(file), "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_the_example_is_in_order() -> None:
    assert run(["settings", "check", str(Path(__file__).parents[3] / "docs" / "culm.example.toml")]) == 0


def test_a_file_given_twice_is_wrong_usage(tmp_path: Path) -> None:
    assert run(["settings", "check", "a.toml", "--config", "b.toml"]) == EXIT_USAGE


def test_all_findings_are_reported_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text('prefx = "a."\n[connector]\nlisten = "4455"\n[job]\nshards = 0\n')
    findings = problems(capsys, file)
    assert {name: place for name, (place, _) in findings.items()} == {
        "prefx": f"{file}:1",
        "connector.listen": f"{file}:3",
        "job.shards": f"{file}:5",
    }


def test_files_exist_and_are_what_the_setting_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "peers.toml").write_text("[nobody]\n")
    (tmp_path / "policy.toml").write_text("nothing = 1\n")
    (tmp_path / "tls.pem").write_text("no certificate")
    file = tmp_path / "edge.toml"
    file.write_text(
        f"""\
[kafka]
ssl.ca.location = "{tmp_path}/missing.pem"
[connector]
directory = "{tmp_path}/peers.toml"
allow_list = "{tmp_path}/peers.toml"
[connector.bamboo]
policy = "{tmp_path}/policy.toml"
tls.ca = "{tmp_path}"
[connector.chotki.tls]
certificate = "{tmp_path}/tls.pem"
private_key = "{tmp_path}/tls.pem"
[connector.transport]
debug_key_log = "{tmp_path}"
"""
    )
    findings = problems(capsys, file)
    assert findings["kafka.ssl.ca.location"] == (
        f"{file}:2",
        f"the file {tmp_path}/missing.pem does not exist",
    )
    assert findings["connector.directory"] == (f"{file}:4", f"{tmp_path}/peers.toml is not a folder")
    assert findings["connector.allow_list"][0] == f"{file}:5"
    assert "must hold a table, `peers`" in findings["connector.allow_list"][1]
    assert findings["connector.bamboo.policy"][0] == f"{file}:7"
    assert findings["connector.bamboo.tls.ca"] == (f"{file}:8", f"{tmp_path} is not a file")
    assert findings["connector.chotki.tls.certificate"][0] == f"{file}:10"
    assert "not a certificate with its private key" in findings["connector.chotki.tls.certificate"][1]
    assert findings["connector.transport.debug_key_log"] == (f"{file}:13", f"{tmp_path} is a folder")
    assert len(findings) == 7


def test_a_path_that_the_system_refuses_is_one_finding_among_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    refused = tmp_path / ("a" * 300)
    file = tmp_path / "edge.toml"
    file.write_text(
        f'connector.allow_list = "{refused}"\nconnector.directory = "{refused}/b"\n'
        f'connector.bamboo.policy = "{tmp_path}/missing.toml"\n'
    )
    findings = problems(capsys, file)
    assert findings["connector.allow_list"] == (
        f"{file}:1",
        f"the file {refused} cannot be read: File name too long",
    )
    assert findings["connector.bamboo.policy"][1] == f"the file {tmp_path}/missing.toml does not exist"


@pytest.mark.parametrize(
    "listen", ["::1:4460", "tcp://0.0.0.0:4460", "edge/a:4460", "[[::1]]:4460", "edge:²"]
)
def test_the_address_of_dag_replication_has_the_form_of_every_address(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, listen: str
) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(f'connector.dag.listen = "{listen}"\n')
    place, problem = problems(capsys, file)["connector.dag.listen"]
    assert place == f"{file}:1"
    assert "write HOST:PORT or quic://HOST:PORT" in problem


def test_files_that_will_be_created_need_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(
        f'connector.directory = "{tmp_path}/a/b"\nconnector.transport.debug_key_log = "{tmp_path}/a/keys"\n'
    )
    assert run(["settings", "check", str(file)]) == 0
