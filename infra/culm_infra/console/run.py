"""The console from its start to its end: the collector, the tables and the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.url import address_text
from culm_infra.console.access import new_token
from culm_infra.console.app import console_app
from culm_infra.console.overview.collector import Collector
from culm_infra.console.overview.targets import target_list
from culm_infra.console.server import ServerLimits, listen, serve
from culm_infra.console.tables import TableContext, open_tables
from culm_infra.console.tables_route import TableRoutes
from culm_infra.sections.console import ConsoleSection, parse_listen
from culm_infra.settings import CulmSettings, connector_directory
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.status_socket import CONNECTOR_SOCKET

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Served:
    """Address of the console. `token` is None if settings have it: it is then not shown."""

    address: str
    url: str
    token: str | None


def default_patterns(settings: CulmSettings) -> tuple[str, ...]:
    """Return the paths of the status sockets of this machine's connector directory and stack."""
    from glob import escape

    from culm_infra.running import socket_directory

    connector = connector_directory(settings) / CONNECTOR_SOCKET
    return escape(str(connector)), f"{escape(str(socket_directory(settings)))}/job-*.sock"


async def run_console(
    section: ConsoleSection,
    kafka: KafkaSettings,
    patterns: Sequence[str],
    *,
    started: Callable[[Served], None],
    stop: asyncio.Event,
) -> None:
    """Serve the console until `stop` is set.

    `patterns` are the paths of status sockets that are shown if the settings name no targets. Raises
    `ConsoleError` if the address or the certificate cannot be used.
    """
    token = new_token() if section.token is None else section.token.get_secret_value()
    tls = _tls(section)
    is_secure = tls is not None or section.behind_proxy
    async with AsyncExitStack() as stack:
        bound = listen(*parse_listen(section.listen))
        stack.callback(bound.close)
        host, port = bound.getsockname()[:2]
        context = TableContext(kafka, section.max_table_bytes, section.scan_timeout_s)
        stack.push_async_callback(asyncio.to_thread, context.stack.close)
        tables = TableRoutes(await asyncio.to_thread(open_tables, context))
        stack.callback(tables.close)
        collector = Collector(target_list(section.targets, patterns), kafka)
        app = console_app(collector.snapshots, tables, token, port=port, is_secure=is_secure)
        await stack.enter_async_context(serve(app, bound, ServerLimits(section.max_connections), tls))
        stack.push_async_callback(collector.snapshots.close)
        collecting = asyncio.create_task(collector.run())
        stack.push_async_callback(_cancelled, collecting)
        address = address_text(host, port)
        url = f"{'http' if tls is None else 'https'}://{address}/"
        shown = token if section.token is None else None
        started(Served(address, url if shown is None else f"{url}?token={shown}", shown))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, collecting}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if collecting.done():
            await collecting  # it never ends by itself: this raises its error
        logger.info("the console is stopping")


def _tls(section: ConsoleSection) -> tuple[Path, Path] | None:
    if section.tls_certificate is None or section.tls_key is None:
        return None
    return section.tls_certificate, section.tls_key


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
