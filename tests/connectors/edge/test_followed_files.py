"""Files that are read again: which of them is not in force, and when a served certificate expires."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from cryptography import x509

from culm_connectors.edge.access import AccessWatch
from culm_connectors.edge.metrics import file_families
from culm_connectors.followed_file import FollowedFile, certificate_expiry_s
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.tcp.listener import serve_tcp
from tests.support.connectors.channels import TCP, Certificates
from tests.support.connectors.quic import LOOPBACK
from tests.support.process.waiting import until

RULES = '[peers]\n"*" = ["*"]\n'


@contextlib.asynccontextmanager
async def watching(path: Path) -> AsyncIterator[AccessWatch]:
    watch = AccessWatch(path, [], 0.01)
    task = asyncio.create_task(watch.run(lambda former: None))
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def in_force(watch: AccessWatch) -> bool:
    (file,) = watch.files
    return file.is_in_force


async def test_an_allow_list_that_cannot_be_read_is_not_in_force_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(RULES)
    async with watching(path) as watch:
        assert watch.files == (FollowedFile(path),)
        before = watch.current
        path.write_text("[peers\n")
        await until(lambda: not in_force(watch))
        assert watch.current is before
        path.write_text(RULES + "# mended\n")
        await until(lambda: in_force(watch))
        assert watch.current is not before
        path.unlink()
        await until(lambda: not in_force(watch))
        path.write_text(RULES)
        await until(lambda: in_force(watch))


async def test_a_change_between_the_start_and_the_watch_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(RULES)
    watch = AccessWatch(path, [], 0.01)
    path.write_text('[peers]\n"address:127.0.0.1" = ["*"]\n')
    task = asyncio.create_task(watch.run(lambda former: None))
    await until(lambda: "address:127.0.0.1" in watch.rules("peers").principals)
    task.cancel()


async def test_without_an_allow_list_there_is_no_file() -> None:
    assert AccessWatch(None, [], 1.0).files == ()


async def test_a_door_tells_of_its_certificate_although_nobody_connects(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first, second = Certificates(tmp_path / "first"), Certificates(tmp_path / "second")
    path = first.server.certificate
    assert (
        path is not None and second.server.certificate is not None and second.server.private_key is not None
    )
    assert first.server.private_key is not None

    async def serve(channel: ByteChannel) -> None: ...

    async with serve_tcp(LOOPBACK, serve, TCP, tls=first.server) as listener:
        ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
        assert listener.files == (FollowedFile(path, expires_s=ends),)
        path.write_bytes(second.server.certificate.read_bytes())
        assert listener.files == (FollowedFile(path, is_in_force=False, expires_s=ends),)
        first.server.private_key.write_bytes(second.server.private_key.read_bytes())
        (file,) = listener.files
        assert file.is_in_force
        assert file.expires_s == certificate_expiry_s(second.server.certificate)
    async with serve_tcp(LOOPBACK, serve, TCP) as listener:
        assert listener.files == ()


def test_a_file_that_is_no_certificate_has_no_end(tmp_path: Path) -> None:
    assert certificate_expiry_s(tmp_path / "missing.pem") is None
    (tmp_path / "noise.pem").write_bytes(b"\x00noise")
    assert certificate_expiry_s(tmp_path / "noise.pem") is None


def test_a_file_of_several_doors_is_one_sample_which_tells_the_worst() -> None:
    path = Path("/etc/culm/tls.pem")
    states, ends = file_families(
        [FollowedFile(path, expires_s=5.0), FollowedFile(path, is_in_force=False, expires_s=3.0)]
    )
    assert [(sample.labels, sample.value) for sample in states.samples] == [({"file": str(path)}, 0.0)]
    assert [(sample.labels, sample.value) for sample in ends.samples] == [({"file": str(path)}, 3.0)]
