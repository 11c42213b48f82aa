"""The HTTP door has places for connections and requests, which its clients share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import httpx
import pytest

from culm_connectors.dag.http.client_budgets import Places
from culm_connectors.dag.http.problems import TooManyRequests
from culm_connectors.dag.http.settings import DoorLimits
from culm_connectors.dag.http.sockets import HttpConnections
from tests.connectors.dag.http.doors import OpenDoor, open_door
from tests.support.connectors.channels import Certificates
from tests.support.process.waiting import while_working


async def until_answered(door: OpenDoor, url: str, status: int) -> httpx.Response:
    """Ask until there is an answer."""
    async with while_working():
        while True:
            try:
                answer = await door.client.get(url)
                assert answer.status_code == status
                return answer
            except httpx.TransportError:
                pass
            await asyncio.sleep(0)


async def test_connections_that_agree_on_nothing_over_tls_count(tmp_path: Path) -> None:
    shown = Certificates(tmp_path)
    tls = {"certificate": shown.server.certificate, "private_key": shown.server.private_key}
    bounds = {"max_connections_per_address": 3, "max_waiting_connections": 0}
    async with open_door(tmp_path / "dags", verify=False, tls=tls, **bounds) as door:
        silent = [await asyncio.open_connection(*door.address) for _ in range(3)]
        with pytest.raises(httpx.TransportError):
            await door.client.get("/openapi.json")
        for _, writer in silent:
            writer.close()
        await until_answered(door, "/openapi.json", 200)


async def test_connections_wait_for_their_turn_and_every_one_is_answered(tmp_path: Path) -> None:
    bounds = {"max_connections_per_address": 2, "max_waiting_connections_per_address": 30}
    shown = Certificates(tmp_path)
    tls = {"certificate": shown.server.certificate, "private_key": shown.server.private_key}
    async with open_door(tmp_path / "dags", verify=False, tls=tls, **bounds) as door:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with (
            while_working(),
            httpx.AsyncClient(base_url=door.url, verify=False, limits=limits, timeout=None) as many,
        ):
            answers = await asyncio.gather(*(many.get("/openapi.json") for _ in range(24)))
        assert [answer.status_code for answer in answers] == [200] * 24
        # Nobody who keeps a connection open without need makes others wait.
        assert "close" in [answer.headers.get("connection") for answer in answers]


async def test_a_door_that_ends_leaves_no_connection_waiting(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags", max_connections_per_address=1) as door:
        opened = [await asyncio.open_connection(*door.address) for _ in range(3)]
    for reader, writer in opened:
        async with while_working():
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


def test_waiting_connections_are_admitted_address_by_address(tmp_path: Path) -> None:
    limits = DoorLimits(max_connections=2, max_connections_per_address=1, max_waiting_connections=3)
    counted = HttpConnections(limits)
    assert counted.enter("a") and counted.enter("b")

    def waits(host: str) -> bool:
        accepted, _ = pair = socket.socketpair()
        pairs.append(pair)
        return counted.wait(host, accepted)

    pairs: list[tuple[socket.socket, socket.socket]] = []
    assert [waits(host) for host in "aacc"] == [True, True, True, False]
    for leaving in "bac":
        counted.leave(leaving)
    admitted = [counted.admitted.get_nowait() for _ in range(counted.admitted.qsize())]
    # `a` had its one place still when `b` left.
    assert len(admitted) == 2 and counted.has_waiting("a") and not counted.has_waiting("c")
    counted.close()
    for place_holder in admitted:
        place_holder.close()
    for pair in pairs:
        for end in pair:
            end.close()


async def test_few_clients_do_not_hold_all_places() -> None:
    places = Places(of_client=16, in_all=64, waiting_of_client=100)
    entering = [
        asyncio.create_task(places.enter(client)) for _ in range(16) for client in ("a", "b", "c", "d", "e")
    ]
    await asyncio.sleep(0)
    admitted = [task.result() for task in entering if task.done()]
    assert len(admitted) == 54
    for client in ("f", "g", "h"):
        leave = await places.enter(client)
        leave()
        leave()

    for leave in admitted:
        leave()
    for leave in await asyncio.gather(*entering):
        leave()
    (await places.enter("a"))()


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_place() -> None:
    places = Places(of_client=1, in_all=1, waiting_of_client=2)
    leave = await places.enter("a")
    gone, next_one, another = (asyncio.create_task(places.enter(client)) for client in "aab")
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await places.enter("a")
    gone.cancel()
    # It is cancelled, and has not run yet.
    leave()
    await asyncio.wait([next_one, another], return_when=asyncio.FIRST_COMPLETED)
    (first,) = (task for task in (next_one, another) if task.done())
    first.result()()
    await asyncio.wait([next_one, another])
    (second,) = (task for task in (next_one, another) if task is not first)
    # One that has its place, and is cancelled before it runs, gives it back.
    late = asyncio.create_task(places.enter("c"))
    await asyncio.sleep(0)
    second.result()()
    late.cancel()
    await asyncio.wait([late])
    (await places.enter("d"))()


def test_every_limit_is_documented() -> None:
    document = (Path(__file__).parents[4] / "docs" / "dag-http.md").read_text()
    assert [name for name in DoorLimits.model_fields if f"`{name}`" not in document] == []


def test_a_connection_that_is_gone_leaves_its_place() -> None:
    counted = HttpConnections(DoorLimits(max_connections=2, max_connections_per_address=1))
    assert [counted.enter(host) for host in "aabc"] == [True, False, True, False]
    counted.leave("a")
    assert counted.enter("c")
