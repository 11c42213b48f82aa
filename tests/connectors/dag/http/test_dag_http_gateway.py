"""Reads by CID as clients of other gateways ask for them: paths, `Accept`, CARs, names and pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from culm_connectors.dag.http.accept import MediaRange, parse_accept, preferred
from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car.reader import read_car
from culm_models.dag.paths.resolve import parse_path
from culm_models.dag.ucan.did_key import did_key, did_text
from tests.connectors.dag.http.doors import OpenDoor, bring, open_door
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.recorded import recorded
from tests.models.dag.signers import KEYS, publish

CAR_TYPE = "application/vnd.ipld.car"
RAW_TYPE = "application/vnd.ipld.raw"


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[OpenDoor]:
    async with open_door(tmp_path / "dags") as opened:
        yield opened


@pytest.fixture
def blocks() -> BlocksInMemory:
    return BlocksInMemory()


async def get(door: OpenDoor, path: str, **headers: str) -> httpx.Response:
    """Ask for a path below `/ipfs/`; a header's name is given with `_`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await door.client.get(f"/ipfs/{path}", headers=named)


NAMES = (
    "x",
    "x\n",
    "\n",
    "a\nb",
    "a/b",
    "a",
    " x",
    "%0A",
    "\ufffd",
    "é",
    "x\r",
    "x\0",
    "q?s#t",
    "+",
    "a%2Fb",
)


async def test_a_path_leads_to_the_name_of_exactly_these_bytes(
    door: OpenDoor, blocks: BlocksInMemory
) -> None:
    leaves = {name: blocks.raw(f"the content of {name!r}".encode()) for name in NAMES}
    root = blocks.directory([(cid, name) for name, cid in leaves.items()])
    await bring(door, list(blocks.items()))
    listed = (await get(door, root.text)).json()["entries"]
    assert [entry["name"] for entry in listed] == list(NAMES)
    for name, leaf in leaves.items():
        path = f"{root}/{quote(name, safe='')}"
        assert (await get(door, path)).content == blocks[leaf], name
        car = read_car((await get(door, f"{path}?format=car")).content)
        assert [section.cid for section in car.sections] == [root, leaf], name


ROUTES = (
    ("/ipfs/{root}/x%0A", 404),
    ("/ipfs/{root}/x%0Ay", 404),
    ("/ipfs/{root}%0A", 400),
    ("/ipfs/{root}/%FF", 400),
    ("/ipfs/{root}/sub%2Fx", 404),
    ("/published/{id}", 200),
    ("/published/{id}%0A", 400),
    ("/published/%20{id}", 400),
    ("/published/{id}%40{publish}", 200),
    ("/published/{id}@{publish}%0A", 400),
    ("/published/{id}/log", 200),
    ("/published/{id}/log%0A", 404),
    ("/published%2F{id}", 404),
    ("/published/{did}", 200),
    ("/published/%FF", 400),
    ("/events%0A?id={id}", 404),
    ("/openapi.json%0A", 404),
)


async def test_every_route_takes_the_path_as_it_was_sent(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf = blocks.raw(b"x")
    # A name that decoding with replacements would turn every byte that is not UTF-8 into.
    root = blocks.directory([(leaf, "x"), (leaf, "\ufffd"), (blocks.directory([(leaf, "x")]), "sub")])
    await bring(door, list(blocks.items()))
    first = publish()
    await door.client.post("/publishes", content=first.data)
    did = quote(did_text(did_key(KEYS[0])), safe="")
    for path, status in ROUTES:
        url = path.format(root=root, id=KEYS[0].hex(), did=did, publish=first.cid)
        assert (await door.client.get(url)).status_code == status, path


async def test_shards_and_spaces_of_a_path_are_decoded_once(door: OpenDoor) -> None:
    shard = cid_of(0x0202, b"a shard")
    for path in (f"/shards/{shard}%0A", f"/shards/{shard}%250A"):
        assert (await door.client.head(path)).status_code == 400
    answer = await door.client.post(f"/spaces/{KEYS[0].hex()}%0A/nodes", content=b"")
    assert (answer.status_code, answer.json()["code"]) == (400, "dag.http.malformed")
    answer = await door.client.post(f"/spaces/{KEYS[0].hex()}/lack%0A", content=b"[]")
    assert answer.status_code == 404


ACCEPTED = (
    ("", "text/plain; charset=utf-8"),
    ("*/*", "text/plain; charset=utf-8"),
    ("text/html, */*;q=0.8", "text/plain; charset=utf-8"),
    (RAW_TYPE.upper(), RAW_TYPE),
    (f"{CAR_TYPE};Order=dfs; VERSION=1", "car n"),
    (f'{CAR_TYPE};dups="y"', "car y"),
    (f"{RAW_TYPE};q=0.5, {CAR_TYPE}", "car n"),
    (f"{CAR_TYPE};q=0.1, {RAW_TYPE};q=0.2", RAW_TYPE),
    (f"{CAR_TYPE}, {RAW_TYPE}", "car n"),
    (f"*/*, {RAW_TYPE}", RAW_TYPE),
    (f"text/plain, {CAR_TYPE};q=0.9", "text/plain; charset=utf-8"),
    (f"{CAR_TYPE};q=0, {RAW_TYPE};q=0", "text/plain; charset=utf-8"),
    (f"{CAR_TYPE};q=2, text/plain;q=0.1", "text/plain; charset=utf-8"),
    (f'text/plain;note=", {CAR_TYPE}"', "text/plain; charset=utf-8"),
    ("x-application/vnd.ipld.rawer", "text/plain; charset=utf-8"),
    (f"{CAR_TYPE};order=new, {CAR_TYPE};order=dfs;dups=y;q=0.5", "car y"),
    (f"{CAR_TYPE};order=unk", "car n"),
    (f"{CAR_TYPE};version=2, text/plain;q=0.1", "text/plain; charset=utf-8"),
    (f"{CAR_TYPE};version=2", "406"),
    (f"{CAR_TYPE};dups=maybe", "406"),
)


async def test_the_best_of_what_is_accepted_is_given(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf = blocks.raw(b"a text")
    await bring(door, list(blocks.items()))
    for accept, kind in ACCEPTED:
        answer = await get(door, f"{leaf}?filename=a.txt", Accept=accept)
        if kind == "406":
            assert (answer.status_code, answer.json()["code"]) == (406, "dag.http.not_acceptable"), accept
        else:
            car = f"{CAR_TYPE}; version=1; order=dfs; dups={kind[-1]}"
            assert answer.headers["content-type"] == (car if kind.startswith("car") else kind), accept
            assert "content-location" in answer.headers or kind.startswith("text"), accept


async def test_the_query_counts_more_than_accept(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf = blocks.raw(b"a text")
    await bring(door, list(blocks.items()))
    accept = f"{CAR_TYPE};dups=y;order=unk"
    for query, accepted, kind in (
        ("format=raw", accept, RAW_TYPE),
        ("format=car", RAW_TYPE, f"{CAR_TYPE}; version=1; order=dfs; dups=n"),
        ("format=car", accept, f"{CAR_TYPE}; version=1; order=dfs; dups=y"),
        ("format=car&car-dups=n&car-order=dfs", accept, f"{CAR_TYPE}; version=1; order=dfs; dups=n"),
        ("car-dups=y", CAR_TYPE, f"{CAR_TYPE}; version=1; order=dfs; dups=y"),
    ):
        answer = await get(door, f"{leaf}?{query}", Accept=accepted)
        assert answer.headers["content-type"] == kind, query
        # A cache that knows nothing of `Accept` learns under which URL the same is found.
        location = answer.headers.get("content-location", f"/ipfs/{leaf}?{query}")
        same = await door.client.get(location)
        assert (same.headers["content-type"] == kind) or (query, accepted) == ("format=car", accept)
    for query in ("format=car&car-dups=x", "format=car&car-version=2", "format=car&car-order=bfs"):
        assert (await get(door, f"{leaf}?{query}")).status_code == 406


async def test_what_is_lacking_is_said_in_the_form_that_is_accepted(door: OpenDoor) -> None:
    url = f"/spaces/{KEYS[0].hex()}/lack"
    for accept, kind in (
        ("application/vnd.ipld.DAG-CBOR", "application/vnd.ipld.dag-cbor"),
        ("application/vnd.ipld.dag-cbor;q=0.1, application/json", "application/json"),
        ("application/vnd.ipld.dag-cbor;q=0", "application/json"),
        ("*/*", "application/json"),
        ("*/*, application/vnd.ipld.dag-cbor", "application/vnd.ipld.dag-cbor"),
    ):
        answer = await door.client.post(url, content=b"[]", headers={"Accept": accept})
        assert answer.headers["content-type"] == kind, accept


def test_members_of_accept_are_parsed_or_ignored() -> None:
    assert parse_accept(
        ["A/B ; X = 1;q=0.25 , ,c/*", '*/*; t="a,\\"b;"; q=0', "a; b", "/x", "a/b;q=1.1"]
    ) == [
        MediaRange("a/b", {"x": "1"}, 0.25),
        MediaRange("c/*", {}, 1.0),
        MediaRange("*/*", {"t": 'a,"b;'}, 0.0),
    ]
    ranges = parse_accept(["a/*;q=0.5, a/b;q=0.1, */*;q=0.3"])
    assert preferred(ranges, ("a/b", "c/d", "a/c")) == "a/c"
    assert preferred(ranges, ("a/b", "c/d")) == "c/d"
    assert preferred([], ("a/b", "c/d")) == "a/b"


async def test_headers_say_the_path_its_roots_and_the_name(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf = blocks.raw(b"a text")
    sub = blocks.directory([(leaf, "é.txt")])
    root = blocks.directory([(sub, "sub")])
    await bring(door, list(blocks.items()))
    path = f"{root}/sub/%C3%A9.txt"
    for query in ("", "?format=car"):
        answer = await get(door, path + query)
        assert answer.headers["x-ipfs-path"] == f"/ipfs/{path}"
        assert answer.headers["x-ipfs-roots"] == f"{root},{sub},{leaf}"
        assert answer.headers["accept-ranges"] == ("none" if query else "bytes")
    raw = await get(door, f"{leaf}?format=raw", Range="bytes=2-3")
    assert raw.headers["x-ipfs-roots"] == leaf.text
    assert (raw.status_code, raw.content) == (206, b"te")
    for query, disposition in (
        ("format=raw", f'attachment; filename="{leaf}.bin"'),
        ("format=car", f'attachment; filename="{leaf}.car"'),
        ("format=raw&filename=a%20b.bin", 'attachment; filename="a b.bin"'),
        (
            "format=car&filename=%22%5C%0D%0A%2F",
            "attachment; filename=\"_____\"; filename*=UTF-8''%22%5C%0D%0A%2F",
        ),
        ("filename=%D1%82.txt", "inline; filename=\"_.txt\"; filename*=UTF-8''%D1%82.txt"),
        ("filename=a.txt&download=true", 'attachment; filename="a.txt"'),
        ("filename=a.html", 'attachment; filename="a.html"'),
        ("", "attachment"),
    ):
        answer = await get(door, f"{leaf}?{query}")
        assert answer.headers["content-disposition"] == disposition
    head = await door.client.head(f"/ipfs/{root}?format=car")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith(CAR_TYPE) and "content-length" not in head.headers


async def test_blocks_are_repeated_where_a_client_keeps_none(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf = blocks.raw(b"leaf")
    file = blocks.file([(leaf, 4), (leaf, 4)])
    root = blocks.directory([(file, "a"), (file, "b")])
    await bring(door, list(blocks.items()))

    async def sections(query: str) -> list[Cid]:
        answer = await get(door, f"{root}?format=car&{query}")
        return [section.cid for section in read_car(answer.content).sections]

    once = [root, file, leaf]
    assert await sections("car-dups=y") == [root, *[file, leaf, leaf] * 2]
    assert await sections("car-dups=n") == await sections("") == once
    etags = {(await get(door, f"{root}?format=car{more}")).headers["etag"] for more in ("", "&car-dups=y")}
    assert len(etags) == 2


async def test_a_range_without_a_byte_of_the_file_gives_the_block_alone(
    door: OpenDoor, blocks: BlocksInMemory
) -> None:
    file = blocks.file([(blocks.raw(b"leaf"), 4), (blocks.raw(b"left"), 4)])
    await bring(door, list(blocks.items()))
    for span in ("8:9", "100:*", "-20:-10", "5:-5"):
        answer = await get(door, f"{file}?format=car&entity-bytes={span}")
        assert [section.cid for section in read_car(answer.content).sections] == [file], span


async def test_only_if_cached_is_a_condition(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf, other = blocks.raw(b"leaf"), cid_of(RAW, b"not here")
    await bring(door, list(blocks.items()))
    for cache_control in ("only-if-cached", "max-age=0, Only-If-Cached"):
        for query in ("", "?format=raw", "?format=car"):
            assert (await get(door, f"{leaf}{query}", Cache_Control=cache_control)).status_code == 200
            answer = await get(door, f"{other}{query}", Cache_Control=cache_control)
            assert (answer.status_code, answer.json()["code"]) == (412, "dag.http.not_cached")
    assert (await get(door, other.text, Cache_Control="no-cache")).status_code == 404


async def pages(door: OpenDoor, root: Cid) -> tuple[list[str], int]:
    """The names of a directory, and the number of its pages."""
    names: list[str] = []
    start, count = "", 0
    while True:
        page = (await get(door, f"{root}?{start}")).json()
        names += [entry["name"] for entry in page["entries"]]
        count += 1
        assert page["is_cut"] is (page["next"] is not None)
        if page["next"] is None:
            return names, count
        start = f"start={page['next']}"


async def test_a_directory_is_listed_in_pages(door: OpenDoor, blocks: BlocksInMemory) -> None:
    leaf = blocks.raw(b"leaf")
    names = [f"{number:05}" for number in range(1_200)]
    root = blocks.directory([(leaf, name) for name in names])
    exact = blocks.directory([(leaf, name) for name in names[:1_000]])
    await bring(door, list(blocks.items()))
    assert await pages(door, root) == (names, 2)
    assert await pages(door, exact) == (names[:1_000], 1)
    etags = {(await get(door, f"{root}{query}")).headers["etag"] for query in ("", "?start=1000")}
    assert len(etags) == 2
    for start, status in (("x", 400), ("-1", 400), ("1.", 400), ("0.0", 404), ("9999999", 200)):
        assert (await get(door, f"{root}?start={start}")).status_code == status


async def test_pages_of_a_sharded_directory_begin_inside_of_its_shards(tmp_path: Path) -> None:
    hamt = next(row for row in recorded("unixfs")["path"] if row["name"].startswith("HAMT"))
    root = parse_path(hamt["path"])[0]
    blocks = [(parse_path(row["cid"])[0], bytes.fromhex(row["hex"])) for row in hamt["blocks"]]
    async with open_door(tmp_path / "whole") as door:
        await bring(door, blocks)
        whole, _ = await pages(door, root)
    # A page may go through few blocks, and none of its entries is lost.
    async with open_door(tmp_path / "dags", walk_blocks=1) as door:
        await bring(door, blocks)
        listed, count = await pages(door, root)
    assert listed == whole and count >= len(whole)


async def test_a_value_is_read_at_a_key_with_a_slash(door: OpenDoor) -> None:
    value = encode_dag_cbor({"a/b": 1, "a": {"b": 2}})
    cid = cid_of(DAG_CBOR, value)
    await bring(door, [(cid, value)])
    assert (await get(door, f"{cid}/a%2Fb")).json() == 1
    assert (await get(door, f"{cid}/a/b")).json() == 2
