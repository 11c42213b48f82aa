"""The trustless gateway, files with ranges, what is published, and its events."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from culm_connectors.dag.http.server import listen
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car.reader import read_car
from culm_models.dag.car.writer import write_car
from culm_models.dag.unixfs.importing import PROFILES, FileTree, import_directory, import_file
from culm_models.testing.dag.scenario import SPACES
from tests.connectors.dag.http.doors import OpenDoor, open_door
from tests.models.dag.signers import KEYS, publish
from tests.support.process.waiting import while_working

SPACE = SPACES[0].hex()
PROFILE = PROFILES["ipfs-cid-v1"]
FILE = random.Random(0).randbytes(1_024_000)


class _Blocks(dict[Cid, bytes]):
    def put(self, cid: Cid, block: bytes) -> None:
        self[cid] = block


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[OpenDoor]:
    async with open_door(tmp_path / "dags") as opened:
        yield opened


async def keep(door: OpenDoor, blocks: dict[Cid, bytes], space: str = SPACE) -> None:
    """Bring blocks as one shard."""
    data = write_car([next(iter(blocks))], list(blocks.items()))
    shard = cid_of(0x0202, data)
    answer = await door.client.put(f"/shards/{shard}?space={space}", content=data)
    assert answer.status_code == 201


@pytest.fixture
def blocks() -> _Blocks:
    return _Blocks()


@pytest.fixture
async def root(door: OpenDoor, blocks: _Blocks) -> Cid:
    """A directory with a large file, a page and a directory with a text."""
    tree: FileTree = {"large.bin": FILE, "page.html": b"<script>1</script>", "sub": {"note.txt": b"a note"}}
    root_cid = import_directory(tree, PROFILE, blocks.put).cid
    await keep(door, blocks)
    return root_cid


async def test_one_block_is_given_raw_and_never_changes(door: OpenDoor, root: Cid, blocks: _Blocks) -> None:
    answer = await door.client.get(f"/ipfs/{root}?format=raw")
    assert answer.content == blocks[root]
    assert answer.headers["content-type"] == "application/vnd.ipld.raw"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in answer.headers["cache-control"]
    etag = answer.headers["etag"]
    known = await door.client.get(f"/ipfs/{root}?format=raw", headers={"If-None-Match": f'"x", {etag}'})
    assert (known.status_code, known.content) == (304, b"")
    accepted = await door.client.get(f"/ipfs/{root}", headers={"Accept": "application/vnd.ipld.raw"})
    assert accepted.content == blocks[root]
    head = await door.client.head(f"/ipfs/{root}?format=raw")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(blocks[root]))


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 9),
        ("&dag-scope=all", 9),
        ("&dag-scope=block", 1),
        ("&dag-scope=entity", 1),
    ],
)
async def test_a_car_has_the_blocks_of_its_scope(
    door: OpenDoor, root: Cid, blocks: _Blocks, query: str, count: int
) -> None:
    answer = await door.client.get(f"/ipfs/{root}?format=car{query}")
    assert answer.headers["content-type"].startswith("application/vnd.ipld.car; version=1")
    car = read_car(answer.content)
    assert car.roots == (root,)
    assert len(car.sections) == count
    assert all(blocks[section.cid] == bytes(section.data) for section in car.sections)


@pytest.mark.parametrize("scope", ["&dag-scope=entity", "&dag-scope=all", ""])
async def test_a_car_of_a_range_has_the_path_and_the_blocks_of_the_range(
    door: OpenDoor, root: Cid, blocks: _Blocks, scope: str
) -> None:
    url = f"/ipfs/{root}/large.bin?format=car{scope}&entity-bytes=0:10"
    car = read_car((await door.client.get(url)).content)
    # The directory, the file's first block, its first leaf.
    assert [section.cid.codec for section in car.sections] == [0x70, 0x70, RAW]
    refused = await door.client.get(f"/ipfs/{root}?format=car&entity-bytes=a")
    assert (refused.status_code, refused.json()["code"]) == (400, "dag.entity_bytes")


async def test_a_file_is_read_whole_and_by_ranges(door: OpenDoor, root: Cid) -> None:
    url = f"/ipfs/{root}/large.bin"
    whole = await door.client.get(url)
    assert whole.content == FILE and whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["content-disposition"] == "attachment"
    for text, start, stop in (
        ("0-0", 0, 1),
        ("262140-262150", 262_140, 262_151),
        ("500000-", 500_000, len(FILE)),
        ("-7", len(FILE) - 7, len(FILE)),
        ("5-99999999", 5, len(FILE)),
    ):
        part = await door.client.get(url, headers={"Range": f"bytes={text}"})
        assert part.status_code == 206 and part.content == FILE[start:stop]
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(FILE)}"
    late = await door.client.get(url, headers={"Range": f"bytes={len(FILE)}-"})
    assert (late.status_code, late.json()["code"]) == (416, "dag.http.range")
    several = await door.client.get(url, headers={"Range": "bytes=0-1,4-5"})
    assert several.status_code == 200
    head = await door.client.head(url)
    assert head.headers["content-length"] == str(len(FILE)) and head.content == b""


async def test_what_a_browser_would_run_is_only_given_to_be_saved(door: OpenDoor, root: Cid) -> None:
    page = await door.client.get(f"/ipfs/{root}/page.html")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"] == "attachment"
    assert "sandbox" in page.headers["content-security-policy"]
    note = await door.client.get(f"/ipfs/{root}/sub/note.txt")
    assert note.text == "a note" and note.headers["content-type"].startswith("text/plain")


async def test_directories_and_values_are_given_as_json(door: OpenDoor, root: Cid) -> None:
    listed = (await door.client.get(f"/ipfs/{root}")).json()
    assert [entry["name"] for entry in listed["entries"]] == ["large.bin", "page.html", "sub"]
    value = encode_dag_cbor({"a": [1, root]})
    cid = cid_of(DAG_CBOR, value)
    await keep(door, {cid: value})
    assert (await door.client.get(f"/ipfs/{cid}/a/0")).json() == 1
    assert (await door.client.get(f"/ipfs/{cid}/a")).json() == [1, {"/": root.text}]
    assert (await door.client.get(f"/ipfs/{cid}/a/1/sub/note.txt")).text == "a note"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("{root}/none", 404, "dag.no_path"),
        ("{other}", 404, "dag.missing_block"),
        ("{other}?format=car", 404, "dag.missing_block"),
        ("{root}/sub?format=raw", 400, "dag.http.malformed"),
        ("{root}?format=zip", 400, "dag.http.malformed"),
        ("{root}?format=car&dag-scope=some", 400, "dag.http.malformed"),
        ("zzz", 400, "dag.http.malformed"),
        ("{root}" + "/a" * 300, 400, "dag.http.malformed"),
    ],
)
async def test_what_is_not_here_or_malformed_says_so(
    door: OpenDoor, root: Cid, path: str, status: int, code: str
) -> None:
    url = path.format(root=root, other=cid_of(RAW, b"other"))
    answer = await door.client.get(f"/ipfs/{url}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_car_that_lacks_a_block_is_cut_off_and_never_looks_whole(door: OpenDoor) -> None:
    blocks = _Blocks()
    root = import_file([bytes([n]) * 262_144 for n in range(12)], PROFILE, blocks.put).cid
    last = list(blocks)[-2]
    del blocks[last]
    await keep(door, blocks)
    with pytest.raises(httpx.RemoteProtocolError):
        await door.client.get(f"/ipfs/{root}?format=car")


async def test_orders_states_and_revisions_are_shown(door: OpenDoor) -> None:
    id = KEYS[0].hex()
    assert (await door.client.get(f"/published/{id}")).status_code == 404
    first = publish()
    second = publish(prior=first.cid, link=cid_of(RAW, b"second"))
    loser = publish(link=cid_of(RAW, b"loser"))
    for block in (first, second, loser):
        await door.client.post("/publishes", content=block.data)
    shown = (await door.client.get(f"/published/{id}")).json()
    tip, heads = shown["tip"]["cid"], shown["heads"]
    assert shown["count"] == 3 and {tip, *heads} == {second.cid.text, loser.cid.text}
    log = (await door.client.get(f"/published/{id}/log?start=1")).json()
    assert log["start"] == 1 and len(log["log"]) == 2 and log["log"][-1]["cid"] == tip
    revision = (await door.client.get(f"/published/{id}@{first.cid}")).json()
    assert revision["publish"]["cid"] == first.cid.text and revision["latest_complete"] is None
    other = await door.client.get(f"/published/{id}@{cid_of(DAG_CBOR, b'x')}")
    assert (other.status_code, other.json()["code"]) == (404, "dag.http.not_here")


async def read_events(
    door: OpenDoor, count: int, last: str = "", then: Any = None
) -> list[tuple[str, str, dict[str, Any]]]:
    """Ids, names and data of the first events of a stream; `then` runs once it is open."""
    events: list[tuple[str, str, dict[str, Any]]] = []
    headers = {"Last-Event-ID": last} if last else {}
    async with (
        while_working(),
        door.client.stream("GET", f"/events?id={KEYS[0].hex()}", headers=headers) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in stream.aiter_lines():
            name, _, value = line.partition(": ")
            if line and name:
                fields[name] = value
                continue
            if "retry" in fields and then is not None:
                await then()
            if "event" in fields:
                events.append((fields["id"], fields["event"], json.loads(fields["data"])))
            fields = {}
            if len(events) >= count:
                return events
    return events


async def test_events_say_what_changed_and_go_on_from_the_last_one(door: OpenDoor) -> None:
    first = publish()

    async def bring_first() -> None:
        await door.client.post("/publishes", content=first.data)

    (event,) = await read_events(door, 1, then=bring_first)
    assert event[1] == "tip" and event[2]["publish"]["cid"] == first.cid.text
    # Roots: whichever is the smaller is first, and the tip is the other one.
    rivals = [publish(link=cid_of(RAW, bytes([n]))) for n in range(8)]
    rival = max(rivals, key=lambda rival: rival.cid)
    assert first.cid < rival.cid
    await door.client.post("/publishes", content=rival.data)
    events = await read_events(door, 2, last=event[0])
    assert [name for _, name, _ in events] == ["superseded", "tip"]
    assert events[0][2]["cid"] == first.cid.text
    assert events[1][2]["publish"]["cid"] == rival.cid.text


async def test_a_stream_needs_an_id_and_a_mark_of_this_door(door: OpenDoor) -> None:
    assert (await door.client.get("/events")).status_code == 400
    url = f"/events?id={KEYS[0].hex()}"
    assert (await door.client.get(url, headers={"Last-Event-ID": "7"})).status_code == 400


def test_no_answer_waits_for_an_acknowledgement_of_its_head() -> None:
    with listen(DagHttpSettings()) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_door_is_served_on_an_address_of_ipv6(tmp_path: Path) -> None:
    async with open_door(tmp_path, host="::1") as door:
        assert door.url.startswith("http://[::1]:")
        assert (await door.client.get("/events")).status_code == 400
