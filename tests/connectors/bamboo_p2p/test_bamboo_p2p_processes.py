"""Two processes over each channel: a large payload goes on at the byte where a SIGKILL stopped it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.hashes import YAMF
from culm_models.keys import KeyPair
from tests.support.channels import Certificates

AUTHOR = KeyPair.generate(b"author of a large payload")
LOG = (AUTHOR.public_key, 0)
NAME = f"{AUTHOR.public_key.hex()}/0"
CULM = (sys.executable, "-c", "from culm_infra.cli import main; main()", "bamboo")
DYING = """
import asyncio, os, pathlib, signal, sys
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.url import parse_url
from culm_models.bamboo.hashes import YAMF

folder, url, ca, name, key, limit = sys.argv[1:]
came = 0

def trace(channel, data):
    global came
    came += len(data) if channel == "data <" else 0
    if came > int(limit):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    settings = BambooPeerSettings(tls=TlsFiles(ca=pathlib.Path(ca), server_name=name))
    async with BambooPeer.open(pathlib.Path(folder), flavour=YAMF, settings=settings) as peer:
        await peer.follow(FollowedLog((bytes.fromhex(key), 0)))
        async with peer.connect(parse_url(url), trace=trace) as remote:
            await remote.ended.wait()

asyncio.run(main())
"""


@asynccontextmanager
async def served(folder: Path, scheme: str, files: Certificates) -> AsyncIterator[str]:
    """A process that serves a folder: its address."""
    certificate = (
        *("--tls-certificate", str(files.server.certificate)),
        *("--tls-key", str(files.server.private_key)),
    )
    process = await asyncio.create_subprocess_exec(
        *CULM,
        "serve",
        f"{scheme}://127.0.0.1:0",
        *("--dir", str(folder), "--json"),
        *(certificate if scheme == "tls" else ()),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        told = json.loads(await process.stdout.readline())
        assert told["event"] == "listening"
        draining = asyncio.create_task(process.stdout.read())
        yield told["url"]
        process.send_signal(signal.SIGINT)
        await draining
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(("scheme", "size"), [("tcp", 50_000_000), ("tls", 8_000_000), ("quic", 8_000_000)])
async def test_a_large_payload_goes_on_where_a_kill_stopped_it(
    tmp_path: Path, scheme: str, size: int
) -> None:
    payload = random.Random(1).randbytes(size)
    store = FolderStore(tmp_path / "one", YAMF)
    with store.exclusively():
        publish(store, AUTHOR, 0, payload)
        publish(store, AUTHOR, 0, b"after it")
    store.close()
    files = Certificates(tmp_path)
    ca, server_name = str(files.client.ca), str(files.client.server_name)
    other = tmp_path / "other"
    async with served(tmp_path / "one", scheme, files) as url:
        dying = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DYING, str(other), url, ca, server_name, LOG[0].hex(), str(size // 2)
        )
        assert await dying.wait() == -signal.SIGKILL
        left = FolderStore(other)
        offset = left.unverified(LOG, 1).end_of_run(0)
        assert size // 2 - 1_000_000 < offset < size and not left.has_payload(LOG, 1)
        left.close()
        sync = await asyncio.create_subprocess_exec(
            *CULM,
            *("sync", url, "--dir", str(other), "--log", NAME, "--idle", "1", "--json"),
            *(("--tls-ca", ca, "--tls-name", server_name) if scheme == "tls" else ()),
            stdout=subprocess.PIPE,
        )
        said, _ = await sync.communicate()
        told = json.loads(said)
        assert sync.returncode == 0 and told["error"] is None
        assert told["received_bytes"] < size - offset + 10_000
    whole = FolderStore(other)
    assert whole.read_payload(LOG, 1, 0, size) == payload and whole.has_payload(LOG, 1)
    assert whole.read_payload(LOG, 2, 0, 100) == b"after it" and whole.has_payload(LOG, 2)
    whole.close()
