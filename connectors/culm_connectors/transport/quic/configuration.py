"""The QUIC library's configuration for one connection, and the files for debugging."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicFileLogger

from culm_connectors.transport.identity import Credentials
from culm_connectors.transport.quic.library import CONNECTION_ID_BYTES, SUPPORTED_VERSIONS
from culm_connectors.transport.settings import TransportSettings


def configuration(
    identity: Credentials,
    settings: TransportSettings,
    *,
    alpn: str,
    is_client: bool,
    remote_host: str,
    beside: Iterable[str] = (),
) -> QuicConfiguration:
    """The library's configuration of one connection towards `remote_host` (a numeric address).

    `beside`: further application protocols that a client may ask a server for.
    """
    return QuicConfiguration(
        alpn_protocols=[alpn, *beside],
        certificate=identity.certificate,
        connection_id_length=CONNECTION_ID_BYTES,
        idle_timeout=settings.idle_timeout_s,
        is_client=is_client,
        max_data=settings.receive_window_bytes,
        max_datagram_size=settings.datagram_bytes_towards(remote_host),
        max_stream_data=settings.stream_receive_window_bytes,
        private_key=identity.private_key,
        quic_logger=_qlog(settings.debug_qlog_directory, "client" if is_client else "server"),
        secrets_log_file=_key_log(settings.debug_key_log),
        supported_versions=list(SUPPORTED_VERSIONS),
        verify_mode=ssl.CERT_NONE,
    )


@lru_cache(maxsize=8)
def _key_log(path: Path | None) -> TextIO | None:
    if path is None:
        return None
    path.touch(mode=0o600, exist_ok=True)
    return path.open("a", encoding="ascii")


@lru_cache(maxsize=8)
def _qlog(directory: Path | None, role: str) -> QuicFileLogger | None:
    if directory is None:
        return None
    # Both ends name a trace alike, after the first connection id, so each role has a folder.
    folder = directory / role
    folder.mkdir(parents=True, exist_ok=True)
    return QuicFileLogger(str(folder))
