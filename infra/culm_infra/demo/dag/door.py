"""A writer whose only way out is the HTTP door of an edge: it brings shuffled parts, and reads as any client.

It trusts the door for nothing: what it reads goes into its folder by CID, as what a peer brings.
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
    """What the door has answered; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class DoorClient:
    """One client of one door, whose token says who it is."""

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
        """One request; with `on_body`, its body is given away in pieces. Raises DemoError."""
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return await asyncio.to_thread(self._ask, method, path, body, given, on_body)

    async def get(self, path: str, on_body: Callable[[bytes], object] | None = None) -> DoorAnswer:
        """What is there. Raises DemoError where it is not."""
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
            found = {name.lower(): value for name, value in response.getheaders()}
            if on_body is None or response.status >= _REFUSED:
                return DoorAnswer(response.status, found, response.read())
            while piece := response.read(_READ_BYTES):
                on_body(piece)
            return DoorAnswer(response.status, found, b"")
        except (OSError, HTTPException) as error:
            raise DemoError(f"{method} {path} at the HTTP door: {error!r}") from error
        finally:
            connection.close()


_KEPT = (200, 201, 202)


@dataclass(slots=True)
class DoorWriter:
    """What `writer` does by a door. `parts`, `doubled`, `resumed`: how its shards were brought."""

    writer: DagWriter
    door: DoorClient
    rng: random.Random
    shard_bytes: int
    parts: int = 0
    doubled: int = 0
    resumed: int = 0
    recut: int = 0
    """Shards that were cut anew of what a CAR brought, and had the CIDs that the nodes name."""
    _links_read: set[Cid] = field(default_factory=set)

    async def push(self) -> None:
        """Bring what the door says it lacks of the heads here: nodes first, then shards in pieces."""
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
            if refused := [one for one in answer.json()["results"] if one["status"] > 1]:
                raise DemoError(f"the door does not take {refused[0]['cid']}: {refused[0]['code']}")
        for text in lack["shards"]:
            await self._bring_shard(cid_from_text(text))

    async def _bring_shard(self, shard: Cid) -> None:
        """Half of its parts, shuffled and each twice; gone; and back for what is not there yet."""
        size = await self.writer.peer.work(lambda folder: folder.shard_size(self.writer.space, shard))
        if size is None:
            raise DemoError(f"the door asks {self.writer.name} for a shard that it never had: {shard}")
        offsets = list(range(0, size, CHUNK_SIZE))
        self.rng.shuffle(offsets)
        for offset in offsets[: len(offsets) // 2]:
            await self._bring_part(shard, size, offset)
            await self._bring_part(shard, size, offset)
            self.doubled += 1
        path = f"/shards/{shard.text}?space={self.writer.space.hex()}"
        there = _ranges((await self.door.ask("HEAD", path)).headers.get("culm-ranges", ""))
        self.resumed += bool(there)
        for offset in offsets:
            if not any(first <= offset <= last for first, last in there):
                await self._bring_part(shard, size, offset)
        if (answer := await self.door.ask("HEAD", path)).status != 200:
            raise DemoError(f"the door has not all of {shard}: {answer.headers.get('culm-ranges')}")

    async def _bring_part(self, shard: Cid, size: int, offset: int) -> None:
        data = await self.writer.peer.work(lambda folder: folder.read_shard(shard, offset, CHUNK_SIZE))
        path = f"/shards/{shard.text}?space={self.writer.space.hex()}"
        span = f"bytes {offset}-{offset + len(data) - 1}/{size}"
        answer = await self.door.ask("PUT", path, data, headers={"Content-Range": span})
        if answer.status not in _KEPT:
            raise DemoError(f"the door does not take a part of {shard}: {answer.status} {answer.body!r}")
        self.parts += 1

    async def pull(self) -> None:
        """Read what is published, the nodes below it, and the content as CARs, which are cut into shards."""
        id = self.writer.space
        log = (await self.door.get(f"/published/{id.hex()}/log")).json()["log"]
        wanted = [cid_from_text(one["cid"]) for one in log]
        while wanted := await self.writer.peer.work(lambda folder, of=wanted: _lacking(folder, id, of)):  # type: ignore[misc]
            for cid in wanted:
                answer = await self.door.get(f"/ipfs/{cid.text}?format=raw")
                await self._keep_node(cid, answer.body)
        for one in log:
            await self._read_content(cid_from_text(one["link"]))

    async def _keep_node(self, cid: Cid, block: bytes) -> None:
        (outcome,) = await self.writer.peer.work(
            lambda folder: folder.put_blocks(self.writer.space, [block], received_at=now_s())
        )
        if outcome.cid != cid:
            raise DemoError(f"the door gave {outcome.cid} where {cid} was asked for")

    async def _read_content(self, link: Cid) -> None:
        if link in self._links_read or link.is_identity:
            return
        lacking = await self.writer.peer.work(
            lambda folder: set(folder.queries.lack(folder.publish_heads(self.writer.space)).shards)
        )
        if not lacking:
            return
        with BlockFile(self.writer.folder) as blocks:
            # A whole DAG is read, as large as it is: one section of it is in memory.
            stream = CarStream(bounds=replace(DEFAULT_BOUNDS, car=sys.maxsize, sections=sys.maxsize))

            def take(piece: bytes) -> None:
                for section in stream.feed(piece):
                    blocks.put(section.cid, bytes(section.data))

            await self.door.get(f"/ipfs/{link.text}?format=car&dag-scope=all", take)
            stream.finish()

            def keep(folder: DagFolder) -> int:
                kept = 0
                for shard in cut_dag(link, blocks.find, self.shard_bytes):
                    if shard.cid in lacking:
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


def _lacking(folder: DagFolder, space: bytes, wanted: list[Cid]) -> list[Cid]:
    absent = [cid for cid in wanted if folder.read_node(cid) is None]
    return list(dict.fromkeys([*absent, *folder.missing_nodes(space, 1_000)]))


def _ranges(header: str) -> list[tuple[int, int]]:
    """First and last bytes of `Culm-Ranges: first-last, …/size`."""
    found = []
    for span in header.partition("/")[0].split(","):
        first, dash, last = span.strip().partition("-")
        if dash:
            found.append((int(first), int(last)))
    return found
