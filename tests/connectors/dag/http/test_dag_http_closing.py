"""An HTTP door whose process drains: pending requests and streams end well, new connections are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from culm_connectors.dag.http.closing import ClosingDoor
from tests.connectors.dag.http.doors import OpenDoor, open_door
from tests.models.dag.signers import KEYS
from tests.support.process.waiting import ended, until

DOCUMENT = "/openapi.json"


async def fresh(door: OpenDoor) -> httpx.Response:
    """The answer to a request over a new connection."""
    async with httpx.AsyncClient(base_url=door.url) as client:
        return await client.get(DOCUMENT)


async def test_open_connections_are_served_once_more_and_new_ones_are_refused(tmp_path: Path) -> None:
    closing = ClosingDoor()
    async with open_door(tmp_path / "dags", closing=closing) as door:
        before = await door.client.get(DOCUMENT)
        assert before.status_code == 200 and "connection" not in before.headers
        closing.begun.set()
        refused = await fresh(door)
        assert len(closing.endings()) == 1, "a late connection has none: its answer closes it"
        assert (refused.status_code, refused.json()["code"]) == (503, "dag.http.shutting_down")
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "5")
        # The client kept its connection.
        served = await door.client.get(DOCUMENT)
        assert (served.status_code, served.headers["connection"]) == (200, "close")
        assert (await door.client.get(DOCUMENT)).status_code == 503


async def test_idle_connections_are_ended_one_by_one(tmp_path: Path) -> None:
    closing = ClosingDoor()
    async with open_door(tmp_path / "dags", closing=closing) as door:
        await door.client.get(DOCUMENT)
        async with httpx.AsyncClient(base_url=door.url) as other:
            await other.get(DOCUMENT)
            closing.begun.set()
            endings = closing.endings()
            assert len(endings) == 2
            for end in endings:
                before = len(closing.endings())
                end()
                await until(lambda before=before: len(closing.endings()) < before)  # type: ignore[misc]
        for end in endings:
            end()  # harmless


async def test_event_streams_end_whole_and_no_further_ones_begin(tmp_path: Path) -> None:
    closing = ClosingDoor()
    url = f"/events?id={KEYS[0].hex()}"
    async with open_door(tmp_path / "dags", closing=closing) as door:
        await door.client.get(DOCUMENT)
        async with (
            httpx.AsyncClient(base_url=door.url) as other,
            door.client.stream("GET", url) as stream,
        ):
            await other.get(DOCUMENT)
            pieces = stream.aiter_text()
            assert (await ended(anext(pieces))).startswith("retry:")
            closing.begun.set()
            async with asyncio.TaskGroup() as group:
                rest = group.create_task(ended(_rest(pieces)))
                late = group.create_task(ended(other.get(url)))
            assert rest.result() == "" and late.result().text == "retry: 2000\n\n"


async def _rest(pieces: object) -> str:
    return "".join([piece async for piece in pieces])  # type: ignore[attr-defined]
