"""Shards in parts, nodes and publishes over HTTP: every status of the table, and its problem details."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from culm_models.dag.blocks.cid import CAR, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.replica.codec import encode_append, encode_node, proof_value
from culm_models.dag.ucan.forms import jwt_text
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_models.testing.dag.scenario import SPACES, large_shard
from tests.connectors.dag.http.doors import CAR_TYPE, OpenDoor, car_of, open_door
from tests.models.dag.signers import DIDS, KEYS, LINK, ORIGIN, publish, ucan

SPACE = SPACES[0].hex()
SHARD, BYTES = large_shard(3)
SIZE = len(BYTES)
URL = f"/shards/{SHARD}?space={SPACE}"
CAR_HEADER = {"Content-Type": CAR_TYPE}


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[OpenDoor]:
    async with open_door(tmp_path / "dags") as opened:
        yield opened


def content_range(start: int, stop: int, size: int = SIZE) -> dict[str, str]:
    return {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}


async def put(door: OpenDoor, start: int, stop: int) -> httpx.Response:
    return await door.client.put(URL, content=BYTES[start:stop], headers=content_range(start, stop))


def code(response: httpx.Response, status: int) -> str:
    """The code of problem details, which say the status as well."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status and body["type"] == f"urn:culm:{body['code']}" and body["title"]
    return str(body["code"])


async def test_a_shard_comes_in_parts_in_any_order_and_is_created_with_the_last(door: OpenDoor) -> None:
    assert (await door.client.head(URL)).status_code == 404
    answer = await put(door, CHUNK_SIZE, 2 * CHUNK_SIZE)
    assert answer.status_code == 202
    assert answer.json()["ranges"] == [[CHUNK_SIZE, CHUNK_SIZE]]
    head = await door.client.head(URL)
    assert head.status_code == 404
    assert head.headers["culm-ranges"] == f"{CHUNK_SIZE}-{2 * CHUNK_SIZE - 1}/{SIZE}"
    assert (await put(door, 2 * CHUNK_SIZE, SIZE)).status_code == 202
    last = await put(door, 0, CHUNK_SIZE)
    assert last.status_code == 201 and last.json()["is_whole"]
    assert (await put(door, 0, CHUNK_SIZE)).status_code == 200
    head = await door.client.head(URL)
    assert (head.status_code, head.headers["culm-size"]) == (200, str(SIZE))
    assert (await door.client.head(f"/shards/{SHARD}")).headers["culm-size"] == str(SIZE)
    assert await door.service.read_shard(SHARD, 0, SIZE) == BYTES


async def test_a_small_shard_comes_whole_without_content_range(door: OpenDoor) -> None:
    assert (await door.client.put(URL, content=BYTES)).status_code == 201


@pytest.mark.parametrize(
    ("headers", "status", "why"),
    [
        (content_range(0, 5), 400, "dag.http.malformed"),
        (content_range(1, CHUNK_SIZE), 400, "dag.http.malformed"),
        (content_range(0, CHUNK_SIZE + 1), 400, "dag.http.malformed"),
        ({"Content-Range": "bytes 5-2/9"}, 400, "dag.http.malformed"),
        ({"Content-Range": "bytes 0-/9"}, 400, "dag.http.malformed"),
        (content_range(0, 9, 8), 400, "dag.http.malformed"),
        (content_range(0, CHUNK_SIZE, (1 << 27) + 1), 413, "dag.http.too_large"),
        (content_range(0, 5 * CHUNK_SIZE, 6 * CHUNK_SIZE), 413, "dag.http.too_large"),
        ({"Content-Encoding": "gzip"}, 400, "dag.http.malformed"),
    ],
)
async def test_a_part_that_is_not_cut_as_it_has_to_be_is_refused(
    door: OpenDoor, headers: dict[str, str], status: int, why: str
) -> None:
    assert code(await door.client.put(URL, content=b"abc", headers=headers), status) == why


async def test_a_body_is_bounded_as_it_is_read_whatever_its_headers_say(door: OpenDoor) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(5 * CHUNK_SIZE // 65_536):
            yield bytes(65_536)

    answer = await door.client.put(URL, content=endless(), headers=content_range(0, CHUNK_SIZE))
    assert code(answer, 413) == "dag.http.too_large"
    assert await door.service.spooled(SHARD, bytes(32)) is None


async def test_another_size_other_bytes_and_a_blocked_shard_are_refused(door: OpenDoor) -> None:
    await put(door, 0, CHUNK_SIZE)
    headers = content_range(0, CHUNK_SIZE, SIZE + 1)
    answer = await door.client.put(URL, content=BYTES[:CHUNK_SIZE], headers=headers)
    assert code(answer, 409) == "dag.size_changed"
    other = f"/shards/{cid_of(CAR, b'other')}?space={SPACE}"
    assert code(await door.client.put(other, content=BYTES), 422) == "dag.hash"
    assert code(await door.client.put(f"/shards/zzz?space={SPACE}", content=b"a"), 400)
    assert code(await door.client.put(f"/shards/{SHARD}?space=12", content=b"a"), 400)
    assert code(await door.client.put(f"/shards/{SHARD}", content=b"a"), 400)
    await door.service.work(lambda folder: folder.set_blocked(SHARD.raw, "unwanted"))
    assert code(await put(door, 0, CHUNK_SIZE), 403) == "dag.blocked"


async def test_nodes_come_in_any_order_and_each_has_a_status_and_a_code(door: OpenDoor) -> None:
    below = encode_append([])
    above = encode_append([SHARD], below.cid)
    jwt = jwt_text(ucan(0, 1, {"can": "dag/publish", "with": DIDS[0]})).encode()
    body = car_of(above.data, b"\xa0", below.data, jwt)
    answer = await door.client.post(f"/spaces/{SPACE}/nodes", content=body, headers=CAR_HEADER)
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [(outcome["status"], outcome["code"]) for outcome in results] == [
        (0, None),
        (2, "dag.schema"),
        (0, None),
        (0, None),
    ]
    assert results[0]["waits_for"] == [below.cid.text]
    again = await door.client.post(f"/spaces/{SPACE}/nodes", content=body, headers=CAR_HEADER)
    assert [outcome["status"] for outcome in again.json()["results"]] == [1, 2, 1, 1]
    lack = await door.client.post(f"/spaces/{SPACE}/lack", json=[above.cid.text, LINK.text])
    assert lack.json() == {"nodes": [LINK.text], "shards": [SHARD.text], "opaque": []}
    cbor = "application/vnd.ipld.dag-cbor"
    lack = await door.client.post(
        f"/spaces/{SPACE}/lack",
        content=encode_dag_cbor([above.cid]),
        headers={"Content-Type": cbor, "Accept": cbor},
    )
    assert decode_dag_cbor(lack.content) == {"nodes": [], "shards": [SHARD], "opaque": []}


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 422), (b"\x00", 422), (car_of(encode_append([]).data)[:-1], 422), (BYTES[:1000], 422)],
)
async def test_a_body_that_is_no_car_of_nodes_is_refused(door: OpenDoor, body: bytes, status: int) -> None:
    answer = await door.client.post(f"/spaces/{SPACE}/nodes", content=body, headers=CAR_HEADER)
    assert code(answer, status).startswith("dag.")


@pytest.mark.parametrize("body", [b"", b"{}", b'["zzz"]', b"[1]", b"[" * 5000, b'["' + b"a" * 4000 + b'"]'])
async def test_a_question_that_is_no_list_of_heads_is_refused(door: OpenDoor, body: bytes) -> None:
    answer = await door.client.post(f"/spaces/{SPACE}/lack", content=body)
    assert code(answer, 400) == "dag.http.malformed"


async def test_a_node_that_waits_says_for_what_whenever_it_comes(door: OpenDoor) -> None:
    below, token = encode_append([]), ucan(1, 2, {"can": "dag/publish", "with": DIDS[0]}, prf=[LINK])
    body = car_of(encode_append([SHARD], below.cid).data, token.block)
    for status in (0, 1):
        answer = await door.client.post(f"/spaces/{SPACE}/nodes", content=body, headers=CAR_HEADER)
        waiting = [(outcome["status"], outcome["waits_for"]) for outcome in answer.json()["results"]]
        assert waiting == [(status, [below.cid.text]), (status, [LINK.text])]


async def test_a_publish_is_in_the_order_or_waits_and_says_for_what_or_is_refused(door: OpenDoor) -> None:
    first = publish()
    second = publish(prior=first.cid)
    answer = await door.client.post("/publishes", content=second.data)
    assert answer.status_code == 202
    assert first.cid.text in answer.json()["waits_for"] and not answer.json()["is_in_order"]
    again = await door.client.post("/publishes", content=second.data)
    assert (again.status_code, again.json()["waits_for"]) == (202, answer.json()["waits_for"])
    answer = await door.client.post("/publishes", content=first.data)
    assert answer.status_code == 201 and answer.json()["is_in_order"]
    assert (await door.client.post("/publishes", content=second.data)).status_code == 201
    expired = publish(link=ORIGIN, exp=1)
    assert code(await door.client.post("/publishes", content=expired.data), 422) == "dag.expired"
    append = encode_append([])
    assert code(await door.client.post("/publishes", content=append.data), 400) == "dag.http.malformed"
    assert code(await door.client.post("/publishes", content=b"\xff"), 422) == "dag.non_canonical"


async def test_a_publish_comes_with_its_ucans_in_one_car(door: OpenDoor) -> None:
    delegation = ucan(0, 1, {"can": "dag/publish", "with": DIDS[0]})
    named = {"link": LINK, "origin": ORIGIN}
    leaf = ucan(1, 0, {"can": "dag/publish", "with": DIDS[0], "nb": named}, prf=[delegation.cid])
    change = {"type": "publish", "id": KEYS[0], **named, "proof": proof_value(leaf)}
    node = encode_node(change, None)
    answer = await door.client.post("/publishes", content=node.data)
    assert answer.status_code == 202 and delegation.cid.text in answer.json()["waits_for"]
    body = car_of(node.data, delegation.block)
    answer = await door.client.post("/publishes", content=body, headers=CAR_HEADER)
    assert answer.status_code == 201
    published = (await door.client.get(f"/published/{KEYS[0].hex()}")).json()
    assert published["tip"]["cid"] == node.cid.text and published["tip"]["state"] == "pending"


async def test_parts_from_many_requests_at_once_make_one_shard(door: OpenDoor) -> None:
    offsets = list(range(0, SIZE, CHUNK_SIZE))
    random.Random(1).shuffle(offsets)
    parts = [put(door, at, min(SIZE, at + CHUNK_SIZE)) for at in offsets]
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*parts))
    assert statuses[-1] == 202 or 201 in statuses
    assert await door.service.shard_size(SHARD) == SIZE
