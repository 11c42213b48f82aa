"""What a client costs the HTTP door is bounded, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from culm_connectors.dag.http.door import Door
from culm_connectors.dag.http.event_sources import EventSources
from culm_connectors.dag.http.server import PartedConnection
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.store.outcomes import PublishedDag
from culm_connectors.dag.watches import Watches
from culm_connectors.edge import fair_turns
from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.replica.codec import encode_append
from tests.connectors.dag.http.doors import CAR_TYPE, bring, car_of, open_door
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.signers import KEYS, publish

SPACE = KEYS[0].hex()
TOKEN = "a-secret-of-some-length"
RULE = {"sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "append": ("*",), "read": ("*",)}
ANOTHER_CLIENT = {"Authorization": f"Bearer {TOKEN}"}


def wide_dag(leaves: int, size: int = 10) -> list[tuple[Cid, bytes]]:
    """A root with links to raw blocks; the root comes first."""
    blocks = [number.to_bytes(4, "big").ljust(size, b".") for number in range(leaves)]
    raw_blocks = [(cid_of(RAW, block), block) for block in blocks]
    root = encode_dag_cbor([cid for cid, _ in raw_blocks])
    return [(cid_of(DAG_CBOR, root), root), *raw_blocks]


async def test_slow_bodies_of_one_client_leave_room_for_another(tmp_path: Path) -> None:
    bounds = {"max_bodies": 2, "max_bodies_per_client": 1}
    async with open_door(tmp_path / "dags", tokens=(RULE,), **bounds) as door:
        slow = [await asyncio.open_connection(*door.address) for _ in range(4)]
        for _, writer in slow:
            writer.write(b"POST /publishes HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
            await writer.drain()
        answer = await door.client.post(
            f"/spaces/{SPACE}/nodes",
            content=car_of(encode_append([]).data),
            headers={"Content-Type": CAR_TYPE, **ANOTHER_CLIENT},
        )
        assert answer.status_code == 200
        for _, writer in slow:
            writer.close()


async def test_headers_of_any_size_are_not_kept(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags") as door:
        reader, writer = await asyncio.open_connection(*door.address)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + bytes(1 << 20))
        # It may be cut off while it goes on.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            assert b" 400 " in await reader.readuntil(b"\r\n")
        writer.close()


async def test_a_publish_comes_with_a_bounded_number_of_blocks(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags") as door:
        blocks = [
            publish().data,
            *(encode_append([cid_of(CAR, bytes([n, m]))]).data for n in range(5) for m in range(205)),
        ]
        answer = await door.client.post(
            "/publishes", content=car_of(*blocks), headers={"Content-Type": CAR_TYPE}
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "dag.http.malformed")


async def test_a_walk_over_too_many_blocks_and_links_is_refused_or_cut_off(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags", walk_blocks=20) as door:
        small, large = wide_dag(10), wide_dag(30)
        await bring(door, small + large)
        assert (await door.client.get(f"/ipfs/{small[0][0]}?format=car")).status_code == 200
        answer = await door.client.get(f"/ipfs/{large[0][0]}?format=car")
        assert (answer.status_code, answer.json()["code"]) == (422, "dag.too_many")
        # One block of it is read all the same.
        assert (await door.client.get(f"/ipfs/{large[0][0]}?format=raw")).content == large[0][1]


async def test_a_client_that_reads_in_parallel_waits_for_its_own_places(tmp_path: Path) -> None:
    bounds = {"max_reads_per_client": 2, "requests_per_second": 1_000, "burst_requests": 8}
    async with open_door(tmp_path / "dags", **bounds) as door:
        blocks = wide_dag(40)
        await bring(door, blocks)
        answers = await asyncio.gather(
            *(door.client.get(f"/ipfs/{cid}?format=raw") for cid, _ in blocks), return_exceptions=True
        )
        assert [getattr(answer, "content", answer) for answer in answers] == [block for _, block in blocks]


async def test_reads_at_once_are_bounded_by_client_and_a_place_is_free_when_its_reader_is_gone(
    tmp_path: Path,
) -> None:
    bounds = {"max_reads_per_client": 1, "max_waiting_per_client": 1}
    async with open_door(tmp_path / "dags", tokens=(RULE,), **bounds) as door:
        blocks = wide_dag(24, 1 << 20)
        await bring(door, blocks)
        url = f"/ipfs/{blocks[0][0]}?format=car"
        async with door.client.stream("GET", url) as stream:
            await anext(stream.aiter_raw())
            # One waits in line, and whoever comes behind the line is refused.
            leaf = f"/ipfs/{blocks[1][0]}?format=raw"
            waiting, refused = (asyncio.create_task(door.client.get(leaf)) for _ in range(2))
            await asyncio.wait([waiting, refused], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting, refused = refused, waiting
            assert (await refused).status_code == 429 and not waiting.done()
            other = await door.client.get(leaf, headers=ANOTHER_CLIENT)
            assert other.status_code == 200
        assert (await waiting).status_code == 200
        for _ in range(3):
            # What is refused, or not here, holds no place.
            missing = cid_of(RAW, b"nowhere")
            assert (await door.client.get(f"/ipfs/{missing}?format=car")).status_code == 404


async def test_bodies_in_chunks_of_a_byte_are_read_a_bounded_number_of_chunks_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[int] = []
    handle_events = H11Protocol.handle_events

    def counted(of: H11Protocol) -> None:
        handle_events(of)
        assert isinstance(of.conn, PartedConnection)
        at_once.append(of.conn.parts)

    monkeypatch.setattr(H11Protocol, "handle_events", counted)
    car = car_of(*(encode_append([cid_of(CAR, bytes([number]))]).data for number in range(8)))
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in car)
    async with open_door(tmp_path / "dags", burst_parts=500, parts_per_second=100_000) as door:
        reader, writer = await asyncio.open_connection(*door.address)
        head = f"POST /spaces/{SPACE}/nodes HTTP/1.1\r\nHost: a\r\nContent-Type: {CAR_TYPE}\r\n"
        request = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        # Requests that follow at once are read in the same way.
        writer.write(2 * request)
        for _ in range(2):
            assert b" 200 " in await reader.readline()
            headers = await reader.readuntil(b"\r\n\r\n")
            (length,) = (
                int(line[15:]) for line in headers.split(b"\r\n") if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
        writer.close()
    assert max(at_once) == 64
    assert sum(at_once) == 2 * (len(car) + 2)


def file_bomb(levels: int) -> tuple[Cid, list[tuple[Cid, bytes]]]:
    """A file whose every node has the one below it twice: 2 to the power of `levels` bytes, in few blocks."""
    blocks = BlocksInMemory()
    top, size = blocks.raw(b"x"), 1
    for _ in range(levels):
        top, size = blocks.file([(top, size), (top, size)]), 2 * size
    return top, list(blocks.items())


async def test_a_file_of_few_blocks_and_endless_bytes_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags") as door:
        top, blocks = file_bomb(50)
        await bring(door, blocks)
        url, half = f"/ipfs/{top}", 1 << 49
        for span in ("bytes=0-9", f"bytes={2 * half - 10}-", "bytes=-10", f"bytes={half}-{half + 9}"):
            answer = await door.client.get(url, headers={"Range": span})
            assert (answer.status_code, answer.content) == (206, b"x" * 10)
        car = await door.client.get(f"{url}?format=car&dag-scope=entity")
        assert car.status_code == 200 and len(car.content) < 1 << 20
        # Its bytes come piece by piece, while others are answered.
        async with door.client.stream("GET", url) as stream:
            await anext(stream.aiter_raw())
            assert (await door.client.get(f"/ipfs/{blocks[0][0]}?format=raw")).content == b"x"


async def test_however_often_something_changes_a_stream_of_events_looks_again_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_door(tmp_path / "dags", events_every_s=3_600) as door:
        looked = 0
        published = door.service.published

        async def counted(id: bytes) -> Any:
            nonlocal looked
            looked += 1
            return await published(id)

        monkeypatch.setattr(door.service, "published", counted)
        await door.service.receive(KEYS[0], [publish().data], KEYS[1])
        async with door.client.stream("GET", f"/events?id={SPACE}") as stream:
            lines = stream.aiter_lines()
            while await anext(lines) != "event: tip":
                pass
            for number in range(20):
                await door.service.receive(KEYS[0], [publish(nnc=str(number)).data], KEYS[1])
            assert looked == 1


async def test_what_is_published_is_computed_once_for_all_who_ask_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_door(tmp_path / "dags") as opened:
        door = Door(opened.service, DagHttpSettings(port=1))
        asked = 0
        published = opened.service.published

        async def counted(id: bytes) -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise OSError("the folder cannot be read")
            return await published(id)

        monkeypatch.setattr(opened.service, "published", counted)
        with pytest.raises(OSError, match="cannot be read"):
            await door.published(KEYS[0])
        gone, *others = (asyncio.create_task(door.published(KEYS[0])) for _ in range(20))
        await asyncio.sleep(0)
        gone.cancel()
        assert len({id(answer) for answer in await asyncio.gather(*others)}) == 1
        assert asked == 2


async def test_all_ids_of_streams_together_are_looked_at_at_a_bounded_rate() -> None:
    looks: list[bytes] = []

    async def published(id: bytes) -> PublishedDag:
        looks.append(id)
        return PublishedDag(id, (), (), ())

    settings = DagHttpSettings(port=1, events_every_s=0.25, max_event_looks_per_second=8)
    sources = EventSources(Watches(), published, settings)
    with contextlib.ExitStack() as streams:
        apart_s = []
        for number in range(6):
            for _ in range(50):
                source = streams.enter_context(sources.streaming(bytes([number])))
            apart_s.append(sources.apart_s)
        first = await source.after(None)
        assert not first.order and len(looks) == 6
    assert apart_s == [0.25, 0.25, 3 / 8, 4 / 8, 5 / 8, 6 / 8]


async def test_a_stream_ends_when_its_id_cannot_be_looked_at() -> None:
    async def published(id: bytes) -> PublishedDag:
        raise OSError("no")

    sources = EventSources(Watches(), published, DagHttpSettings(port=1))
    with sources.streaming(b"x") as first, sources.streaming(b"x") as other:
        for source in (first, other):
            with pytest.raises(OSError, match="no"):
                await source.after(None)
        with sources.streaming(b"x") as later:
            assert later is not first


async def test_long_work_is_done_in_turns() -> None:
    now_s = 0.0
    ran: list[int] = []

    def work(numbers: list[int]) -> Generator[None, None, str]:
        nonlocal now_s
        for number in range(10):
            numbers.append(number)
            now_s += fair_turns.TURN_S / 3
            yield
        return "done"

    taken = 0

    async def run(step: Any) -> Any:
        nonlocal taken
        taken += 1
        return step(ran)

    assert await fair_turns.in_turns(run, work, lambda: now_s) == "done"
    assert ran == list(range(10))
    assert taken == 4
    assert fair_turns.at_once(work(ran)) == "done"
