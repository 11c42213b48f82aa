"""The files of TLS: read again when they change, and no session is lost; which versions are spoken."""

from __future__ import annotations

import logging
import shutil
import ssl
from pathlib import Path

import pytest
from pydantic import ValidationError

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import TransportError
from culm_connectors.transport.errors import ConnectError, IdentityError
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.tcp import tls
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from tests.support.connectors.channels import TCP, Certificates
from tests.support.connectors.quic import LOOPBACK

SETTINGS = TCP.model_copy(update={"idle_timeout_s": 30})


async def echo(channel: ByteChannel) -> None:
    while data := await channel.read():
        await channel.write(data)


async def say(channel: ByteChannel, text: bytes) -> None:
    await channel.write(text)
    assert await channel.read() == text


def folder(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    return path


def replace(old: Path | None, new: Path | None) -> None:
    """As tools that rotate certificates do: a new file under the old name."""
    assert old is not None and new is not None
    shutil.copy(new, old.with_suffix(".new"))
    old.with_suffix(".new").replace(old)


async def test_new_files_are_used_from_the_next_connection_on_and_sessions_live_on(tmp_path: Path) -> None:
    first, second = Certificates(folder(tmp_path, "first")), Certificates(folder(tmp_path, "second"))
    async with serve_tcp(LOOPBACK, echo, SETTINGS, tls=first.server) as listener:
        before = await connect_tcp(listener.address, SETTINGS, first.client)
        await say(before, b"before")
        replace(first.server.certificate, second.server.certificate)
        replace(first.server.private_key, second.server.private_key)
        replace(first.server.ca, second.server.ca)
        after = await connect_tcp(listener.address, SETTINGS, second.client)
        await say(after, b"after")
        assert after.principal.name != before.principal.name
        await say(before, b"still there")
        former = first.client.model_copy(update={"ca": second.ca})
        with pytest.raises(TransportError):
            refused = await connect_tcp(listener.address, SETTINGS, former)
            await refused.read()
        for channel in (before, after):
            await channel.close()


async def test_a_certificate_whose_key_has_not_come_yet_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Certificates(folder(tmp_path, "first")), Certificates(folder(tmp_path, "second"))
    trusting = second.client.model_copy(update={"certificate": None, "private_key": None})
    async with serve_tcp(LOOPBACK, echo, SETTINGS, tls=first.server) as listener:
        replace(first.server.certificate, second.server.certificate)
        with caplog.at_level(logging.ERROR):
            for _ in range(2):
                channel = await connect_tcp(listener.address, SETTINGS, first.client)
                await say(channel, b"as before")
                await channel.close()
        assert len(caplog.records) == 1 and "previous files" in caplog.text
        replace(first.server.private_key, second.server.private_key)
        channel = await connect_tcp(listener.address, SETTINGS, trusting)
        await say(channel, b"now")
        await channel.close()


async def test_a_caller_reads_its_files_at_each_call(tmp_path: Path) -> None:
    first, second = Certificates(folder(tmp_path, "first")), Certificates(folder(tmp_path, "second"))
    async with serve_tcp(LOOPBACK, echo, SETTINGS, tls=second.server) as listener:
        with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await connect_tcp(listener.address, SETTINGS, first.client)
        for name in ("ca", "certificate", "private_key"):
            replace(getattr(first.client, name), getattr(second.client, name))
        channel = await connect_tcp(listener.address, SETTINGS, first.client)
        await say(channel, b"believed")
        await channel.close()


@pytest.mark.parametrize("minimum", ["1.2", "1.3"])
async def test_versions_below_the_minimum_are_not_spoken(
    tmp_path: Path, minimum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(tmp_path)
    server = certificates.server.model_copy(update={"minimum_version": minimum})
    make = tls.client_context

    def old(settings: TlsFiles) -> ssl.SSLContext:
        context = make(settings)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context

    monkeypatch.setattr("culm_connectors.transport.tcp.dial.client_context", old)
    client = certificates.client.model_copy(update={"minimum_version": "1.2"})
    async with serve_tcp(LOOPBACK, echo, SETTINGS, tls=server) as listener:
        if minimum == "1.3":
            with pytest.raises(ConnectError, match="VERSION"):
                await connect_tcp(listener.address, SETTINGS, client)
        else:
            channel = await connect_tcp(listener.address, SETTINGS, client)
            await say(channel, b"of old")
            await channel.close()


async def test_who_calls_must_show_a_certificate_where_an_authority_is_named(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    strict = files.server.model_copy(update={"require_client_certificate": None})
    nobody = files.client.model_copy(update={"certificate": None, "private_key": None})
    async with serve_tcp(LOOPBACK, echo, SETTINGS, tls=strict) as listener:
        with pytest.raises(TransportError):
            refused = await connect_tcp(listener.address, SETTINGS, nobody)
            await refused.read()
        channel = await connect_tcp(listener.address, SETTINGS, files.client)
        await say(channel, b"known")
        await channel.close()


def test_files_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="go together"):
        TlsFiles(certificate=tmp_path / "own.pem")
    with pytest.raises(ValidationError, match="needs ca"):
        TlsFiles(require_client_certificate=True)
    with pytest.raises(IdentityError, match="without a certificate"):
        tls.server_context(TlsFiles())
