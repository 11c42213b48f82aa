"""An HTTP server inside another program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LOAD = """
import sys
from pathlib import Path
from culm_connectors.http_server import HttpConfig, LimitedConnection

async def app(scope, receive, send): ...

certificate, key = map(Path, sys.argv[1:])
config = HttpConfig(
    app, LimitedConnection, head_timeout_s=1, keep_alive_s=1, shutdown_s=1, tls=(certificate, key)
)
try:
    config.load()
except OSError as error:
    print("refused:", error)
else:
    print("loaded")
"""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate with a key that needs a password, in one folder."""
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-passout",
            "pass:secret",
            "-subj",
            "/CN=x",
            "-keyout",
            tmp_path / "key.pem",
            "-out",
            tmp_path / "certificate.pem",
        ],
        check=True,
        capture_output=True,
    )
    return tmp_path / "certificate.pem"


def test_a_key_that_needs_a_password_is_refused_and_nobody_is_asked(certificate: Path) -> None:
    # Without a terminal, OpenSSL asks for the password on standard input.
    loading = subprocess.run(
        [sys.executable, "-c", _LOAD, certificate, certificate.with_name("key.pem")],
        input="secret\n",
        capture_output=True,
        text=True,
        start_new_session=True,
        check=True,
        timeout=60,
    )
    assert loading.stdout.startswith("refused:")
    assert not loading.stderr
