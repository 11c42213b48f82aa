"""The rules of a connection hold over every channel: QUIC's two streams, and bymux over TCP and TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.interest import Interest
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings, TlsFiles, Url
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.hashes import YAMF
from culm_models.keys import KeyPair
from tests.support.channels import Certificates

AUTHOR = KeyPair.generate(b"author of a log of a folder")
LOG = (AUTHOR.public_key, 3)
DEADLINE_S = 60.0


@pytest.fixture(params=["tcp", "tls", "quic"])
def url(request: pytest.FixtureRequest) -> Url:
    return Url(request.param, "127.0.0.1", 0)


@pytest.fixture
def settings(tmp_path: Path) -> BambooPeerSettings:
    files = Certificates(tmp_path)
    shown = TlsFiles(
        files.server.certificate, files.server.private_key, files.client.ca, files.client.server_name
    )
    return BambooPeerSettings(tls=shown, refresh_s=0.05)


async def until(peer: BambooPeer, holds: Callable[[FolderStore], bool]) -> None:
    """Wait for what a peer tells of until its store is as it should be."""
    changed = asyncio.Event()
    peer.listeners.append(lambda _, __: changed.set())
    async with asyncio.timeout(DEADLINE_S):
        while not await peer.read(holds):
            await changed.wait()
            changed.clear()


async def test_a_log_comes_whole_and_what_is_published_later_follows_live(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    async with (
        BambooPeer.opened(tmp_path / "one", flavour=YAMF, settings=settings) as one,
        BambooPeer.opened(tmp_path / "other", flavour=YAMF, settings=settings) as other,
        one.listen(url) as bound,
    ):
        for number in range(30):
            await one.publish(AUTHOR, LOG[1], b"payload %d " % number * number)
        await other.follow(Interest(LOG))
        async with other.connect(bound):
            await until(other, lambda store: store.payloads(LOG).covers(1, 31))
            await one.publish(AUTHOR, LOG[1], b"live", end_of_log=True)
            await until(other, lambda store: store.has_payload(LOG, 31))
            assert await other.read(lambda store: store.end_of_log(LOG)) == 31
            assert await other.read(lambda store: store.read_payload(LOG, 31, 0, 10)) == b"live"
