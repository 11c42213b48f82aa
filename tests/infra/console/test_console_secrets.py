"""The token of the console is in no output of other commands; the console over TLS."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import httpx
import pytest

from culm_infra.cli.root import run
from culm_infra.demo.chotki.actors import make_certificate
from culm_infra.support.redaction import redaction
from tests.support.console.served import serving

MARK = "xMARKEDx-console-token"

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


@pytest.fixture(params=["file", "variable", "file of a variable"])
def configured(
    no_settings_from_outside: None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A token by each source of settings."""
    monkeypatch.chdir(tmp_path)
    if request.param == "file":
        (tmp_path / "culm.toml").write_text(f'[console]\ntoken = "{MARK}"\n')
    elif request.param == "variable":
        monkeypatch.setenv("CULM_CONSOLE__TOKEN", MARK)
    else:
        (tmp_path / "token").write_text(MARK + "\n")
        monkeypatch.setenv("CULM_CONSOLE__TOKEN_FILE", str(tmp_path / "token"))


@pytest.mark.usefixtures("configured")
def test_the_token_of_the_settings_is_never_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("settings show", "settings show --json", "settings check", "stack status"):
        run(line.split())
    shown = capsys.readouterr()
    assert "console.token" in shown.out
    assert MARK not in shown.out + shown.err


@pytest.mark.usefixtures("configured")
def test_the_token_is_removed_from_every_part_of_a_support_bundle() -> None:
    removed = redaction(None, os.environ)
    assert MARK not in removed.apply(f"a log line with {MARK}, and http://127.0.0.1:8780/?token={MARK}")


def test_a_token_that_a_console_made_is_removed_from_logs() -> None:
    made = "Zk3_random-Text0123"
    assert made not in redaction(None, {}).apply(f"the console is at http://127.0.0.1:8780/?token={made} now")


@pytest.mark.parametrize(
    "wrong", ['token = "short-xMARKx"', "token = 1234567890", 'token = ["xMARKx-in-a-list"]']
)
def test_a_wrong_token_is_not_repeated_in_the_error(
    wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "culm.toml").write_text(f"[console]\n{wrong}\n")
    assert run(["settings", "show"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "culm.toml:2: console.token" in said
    assert "xMARKx" not in said and "1234567890" not in said


async def test_over_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    files = make_certificate(tmp_path)
    assert files.certificate is not None
    trusted = ssl.create_default_context(cafile=str(files.certificate))
    trusted.check_hostname = False
    async with serving(tls_certificate=files.certificate, tls_key=files.private_key) as console:
        assert console.served.url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=trusted) as browser:
            answer = await browser.get(console.served.url)
            assert "Secure" in answer.headers["set-cookie"]
            assert "strict-transport-security" in answer.headers
            assert (await browser.get(answer.url.join("/api/overview"))).status_code == 200


async def test_behind_a_proxy_the_cookie_is_for_tls_alone() -> None:
    async with serving(behind_proxy=True) as console, httpx.AsyncClient() as browser:
        assert "Secure" in (await browser.get(console.served.url)).headers["set-cookie"]
