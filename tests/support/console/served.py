"""A console that is served in the test's event loop, and requests to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from culm_infra.console.run import Served, run_console
from culm_infra.sections.console import ConsoleSection
from culm_topics.kafka.clients import KafkaSettings

NO_KAFKA = KafkaSettings(bootstrap="127.0.0.1:1", prefix="culm.")


@dataclass(slots=True)
class ServedConsole:
    """A running console, and a client that has its token."""

    served: Served
    client: httpx.AsyncClient

    async def overview(self) -> dict[str, Any]:
        answer = await self.client.get("/api/overview")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the overviews that are pushed."""
        async with self.client.stream("GET", "/api/events", timeout=30) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def serving(
    kafka: KafkaSettings = NO_KAFKA, patterns: Sequence[str] = (), **settings: Any
) -> AsyncIterator[ServedConsole]:
    """Serve a console while the context is open."""
    section = ConsoleSection.model_validate({"listen": "127.0.0.1:0", **settings})
    stop = asyncio.Event()
    started: asyncio.Future[Served] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        run_console(section, kafka, patterns, started=started.set_result, stop=stop)
    )
    try:
        running.add_done_callback(lambda _: started.done() or started.cancel())
        try:
            await started
        except asyncio.CancelledError:
            await running
        served = await started
        token = served.token or (section.token.get_secret_value() if section.token else "")
        base = served.url.partition("?")[0]
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=base, headers=headers, verify=False) as client:
            yield ServedConsole(served, client)
    finally:
        stop.set()
        if not running.done():
            await running
