"""A writer that can use only the HTTP door of an edge: it sends shuffled parts, and reads as any client.

It does not trust the door: everything that it reads enters its folder by CID, like data from a peer.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from culm_connectors.dag.cars import BlockFile
from culm_connectors.dag.store.folder import DagFolder
from culm_infra.demo.dag.writer import DagWriter, now_s
from culm_infra.demo.kit.processes import DemoError
from culm_models.dag.blocks.cid import Cid, cid_from_text
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.car.reader import CarStream
from culm_models.dag.car.writer import write_car
from culm_models.dag.sharding import NO_ROOT, cut_dag
from culm_models.dag.wire.messages import CHUNK_SIZE

_TIMEOUT_S: Final = 60.0
_READ_BYTES: Final = 1_048_576
_REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """Answer of the door; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Parse the body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class DoorClient:
    """Client of a door, identified by its token."""

    host: str
    port: int
    token: str

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        on_body: Callable[[bytes], object] | None = None,
    ) -> DoorAnswer:
        """Send one request; `on_body` receives the response body in pieces. Raises `DemoError`."""
        all_headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return await asyncio.to_thread(self._ask, method, path, body, all_headers, on_body)

    async def get(self, path: str, on_body: Callable[[bytes], object] | None = None) -> DoorAnswer:
        """Get a resource. Raises `DemoError` if the door refuses."""
        answer = await self.ask("GET", path, on_body=on_body)
        if answer.status >= _REFUSED:
            raise DemoError(f"GET {path}: {answer.status} {answer.body[:200].decode(errors='replace')}")
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        on_body: Callable[[bytes], object] | None,
    ) -> DoorAnswer:
        connection = HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            response_headers = {name.lower(): value for name, value in response.getheaders()}
            if on_body is None or response.status >= _REFUSED:
                return DoorAnswer(response.status, response_headers, response.read())
            while piece := response.read(_READ_BYTES):
                on_body(piece)
            return DoorAnswer(response.status, response_headers, b"")
        except (OSError, HTTPException) as error:
            raise DemoError(f"{method} {path} at the HTTP door: {error!r}") from error
        finally:
            connection.close()


_KEPT = (200, 201, 202)


@dataclass(slots=True)
class DoorWriter:
    """A writer that uses a door. `parts`, `doubled`, `resumed`: how its shards were sent."""

    writer: DagWriter
    door: DoorClient
    rng: random.Random
    shard_bytes: int
    parts: int = 0
    doubled: int = 0
    resumed: int = 0
    recut: int = 0
    """Shards that were cut again from a CAR and had the CIDs that the nodes name."""
    _links_read: set[Cid] = field(default_factory=set)

    async def push(self) -> None:
        """Send what the door is missing below the heads of this folder: nodes first, then shards in
        pieces.
        """
        space = self.writer.space.hex()
        while True:
            heads = await self.writer.peer.work(self._heads)
            asked = json.dumps([cid.text for cid in heads]).encode()
            lack = (await self._post(f"/spaces/{space}/lack", asked, "application/json")).json()
            wanted = [cid_from_text(text) for text in lack["nodes"]]
            blocks = await self.writer.peer.work(lambda folder, of=wanted: _nodes(folder, of))  # type: ignore[misc]
            if not blocks:
                break
            self.rng.shuffle(blocks)
            car = write_car([NO_ROOT], blocks)
            answer = await self._post(f"/spaces/{space}/nodes", car, "application/vnd.ipld.car")
            if refused := [row for row in answer.json()["results"] if row["status"] > 1]:
                raise DemoError(f"the door does not take {refused[0]['cid']}: {refused[0]['code']}")
        for text in lack["shards"]:
            await self._push_shard(cid_from_text(text))

    async def _push_shard(self, shard: Cid) -> None:
        """Send half of the shard's parts, shuffled and each twice, then ask for the missing ranges and send
        those.
        """
        size = await self.writer.peer.work(lambda folder: folder.shard_size(self.writer.space, shard))
        if size is None:
            raise DemoError(f"the door asks {self.writer.name} for a shard that it never had: {shard}")
        offsets = list(range(0, size, CHUNK_SIZE))
        self.rng.shuffle(offsets)
        for offset in offsets[: len(offsets) // 2]:
            await self._push_part(shard, size, offset)
            await self._push_part(shard, size, offset)
            self.doubled += 1
        path = f"/shards/{shard.text}?space={self.writer.space.hex()}"
        there = _ranges((await self.door.ask("HEAD", path)).headers.get("culm-ranges", ""))
        self.resumed += bool(there)
        for offset in offsets:
            if not any(first <= offset <= last for first, last in there):
                await self._push_part(shard, size, offset)
        if (answer := await self.door.ask("HEAD", path)).status != 200:
            raise DemoError(f"the door has not all of {shard}: {answer.headers.get('culm-ranges')}")

    async def _push_part(self, shard: Cid, size: int, offset: int) -> None:
        data = await self.writer.peer.work(lambda folder: folder.read_shard(shard, offset, CHUNK_SIZE))
        path = f"/shards/{shard.text}?space={self.writer.space.hex()}"
        span = f"bytes {offset}-{offset + len(data) - 1}/{size}"
        answer = await self.door.ask("PUT", path, data, headers={"Content-Range": span})
        if answer.status not in _KEPT:
            raise DemoError(f"the door does not take a part of {shard}: {answer.status} {answer.body!r}")
        self.parts += 1

    async def pull(self) -> None:
        """Read the publishes, the nodes below them, and the content as CARs, which are cut into shards."""
        id = self.writer.space
        log = (await self.door.get(f"/published/{id.hex()}/log")).json()["log"]
        wanted = [cid_from_text(entry["cid"]) for entry in log]
        while wanted := await self.writer.peer.work(lambda folder, of=wanted: _missing(folder, id, of)):  # type: ignore[misc]
            for cid in wanted:
                answer = await self.door.get(f"/ipfs/{cid.text}?format=raw")
                await self._keep_node(cid, answer.body)
        for entry in log:
            await self._read_content(cid_from_text(entry["link"]))

    async def _keep_node(self, cid: Cid, block: bytes) -> None:
        (outcome,) = await self.writer.peer.work(
            lambda folder: folder.put_blocks(self.writer.space, [block], received_at=now_s())
        )
        if outcome.cid != cid:
            raise DemoError(f"the door gave {outcome.cid} where {cid} was asked for")

    async def _read_content(self, link: Cid) -> None:
        if link in self._links_read or link.is_identity:
            return
        missing = await self.writer.peer.work(
            lambda folder: set(folder.queries.missing(folder.publish_heads(self.writer.space)).shards)
        )
        if not missing:
            return
        with BlockFile(self.writer.folder) as blocks:
            # A DAG of any size is read, with one section of the CAR in memory.
            stream = CarStream(bounds=replace(DEFAULT_BOUNDS, car=sys.maxsize, sections=sys.maxsize))

            def take(piece: bytes) -> None:
                for section in stream.feed(piece):
                    blocks.put(section.cid, bytes(section.data))

            await self.door.get(f"/ipfs/{link.text}?format=car&dag-scope=all", take)
            stream.finish()

            def keep(folder: DagFolder) -> int:
                kept = 0
                for shard in cut_dag(link, blocks.find, self.shard_bytes):
                    if shard.cid in missing:
                        kept += folder.add_shard(self.writer.space, shard.cid, shard.data)
                return kept

            self.recut += await self.writer.peer.work(keep)
        self._links_read.add(link)

    def _heads(self, folder: DagFolder) -> list[Cid]:
        space = self.writer.space
        return [*folder.dag_heads(space), *folder.publish_heads(space)]

    async def _post(self, path: str, body: bytes, kind: str) -> DoorAnswer:
        answer = await self.door.ask("POST", path, body, headers={"Content-Type": kind})
        if answer.status != 200:
            raise DemoError(f"POST {path}: {answer.status} {answer.body[:200]!r}")
        return answer


def _nodes(folder: DagFolder, wanted: list[Cid]) -> list[tuple[Cid, bytes]]:
    return [(cid, block) for cid in wanted if (block := folder.read_node(cid)) is not None]


def _missing(folder: DagFolder, space: bytes, wanted: list[Cid]) -> list[Cid]:
    absent = [cid for cid in wanted if folder.read_node(cid) is None]
    return list(dict.fromkeys([*absent, *folder.missing_nodes(space, 1_000)]))


def _ranges(header: str) -> list[tuple[int, int]]:
    """Parse the first and last bytes of `Culm-Ranges: first-last, …/size`."""
    ranges = []
    for span in header.partition("/")[0].split(","):
        first, dash, last = span.strip().partition("-")
        if dash:
            ranges.append((int(first), int(last)))
    return ranges
