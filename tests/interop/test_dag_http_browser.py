"""The HTTP door of DAGs as pages use it: in a real browser, with node's fetch, and with curl."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import write_car
from culm_models.dag.order.total_order import order_of
from culm_models.dag.replica.codec import encode_append, encode_node, proof_value
from culm_models.dag.unixfs.importing import PROFILES, import_bytes
from culm_models.dag.wire.messages import CHUNK_SIZE
from tests.connectors.dag.http.doors import OpenDoor, open_door
from tests.interop.browser_page import browser, seen_in_browser, serving
from tests.interop.dag_browser import DRIVERS, compiled
from tests.models.dag.signers import DIDS, KEYS, LINK, publish, ucan

ID = KEYS[0].hex()
CONTENT = Random(16).randbytes(5_120_000)
BLOCKS: dict[Cid, bytes] = {}
ROOT = import_bytes(CONTENT, PROFILES["ipfs-cid-v1"], BLOCKS.__setitem__).cid
SHARD_BYTES = write_car([ROOT], BLOCKS.items())
SHARD = cid_of(CAR, SHARD_BYTES)
SIZE = len(SHARD_BYTES)
APPEND = encode_append([SHARD])
GRANT = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]})
FIRST = publish(link=ROOT, origin=APPEND.cid)


def delegated(prior: Cid, named: Cid) -> Any:
    """A publish by somebody whom the id entitled; its leaf names this link."""
    fields = {"link": named, "origin": APPEND.cid, "prior": prior}
    leaf = ucan(1, 0, {"can": "dag/publish", "with": DIDS[0], "nb": fields}, prf=[GRANT.cid])
    change = {
        "type": "publish",
        "id": KEYS[0],
        "link": ROOT,
        "origin": APPEND.cid,
        "proof": proof_value(leaf),
    }
    return encode_node(change, prior)


SECOND = delegated(FIRST.cid, ROOT)
STOLEN = delegated(SECOND.cid, LINK)


def encoded(cid: Cid, data: bytes) -> dict[str, str]:
    return {"cid": cid.text, "bytes": base64.b64encode(data).decode()}


def given(door: OpenDoor, does: str) -> dict[str, Any]:
    """What a page needs to know."""
    grant = encoded(GRANT.cid, GRANT.block)
    return {
        "does": does,
        "door": door.url,
        "id": ID,
        "shard": base64.b64encode(SHARD_BYTES).decode(),
        "shard_cid": SHARD.text,
        "raw": ROOT.text,
        "nodes": [encoded(APPEND.cid, APPEND.data)],
        "publishes": [
            [encoded(FIRST.cid, FIRST.data)],
            [encoded(SECOND.cid, SECOND.data), grant],
            [encoded(STOLEN.cid, STOLEN.data)],
        ],
    }


def check(saw: dict[str, Any]) -> None:
    """A page brought everything, and verified what it read."""
    assert "error" not in saw, saw["error"]
    assert saw["first_part"] == 202
    assert saw["ranges"] == f"0-{CHUNK_SIZE - 1}/{SIZE}"
    assert saw["shard"] == SHARD.text
    # The chunk that lay there is not sent again; a part is four at most.
    assert saw["progress"] == [5 * CHUNK_SIZE, SIZE]
    assert saw["size"] == str(SIZE)
    assert saw["refused"] == [400, "dag.http.malformed"]
    assert saw["nodes"] == [0]
    assert saw["publish"]["is_in_order"]
    assert saw["before"] == ["tip", "complete"]
    assert saw["waits"] == [GRANT.cid.text]
    assert saw["publish_again"]
    assert saw["behind"] == [["tip", SECOND.cid.text], ["complete", SECOND.cid.text]]
    assert saw["stolen"] == [422, "dag.unbound"]
    order = order_of([(FIRST.cid, None), (SECOND.cid, FIRST.cid)])
    assert saw["order"] == [cid.text for cid in order.order()]
    assert saw["tip"] == SECOND.cid.text and saw["is_total_order"]
    assert set(saw["blocks"]) == {cid.text for cid in BLOCKS}
    assert saw["range"] == [206, f"bytes 10-19/{len(CONTENT)}", 10]


async def test_a_page_of_a_listed_origin_in_a_browser(tmp_path: Path) -> None:
    program = browser()
    with serving(compiled()) as page:
        async with open_door(tmp_path / "dags", origins=(page.origin,)) as door:
            page.given.update(given(door, "trial"))
            saw = await seen_in_browser(program, page, tmp_path / "profile")
            check(saw)
            assert saw["source"] == SECOND.cid.text
            assert await door.service.shard_size(SHARD) == SIZE


async def test_a_page_of_another_origin_reads_and_brings_nothing(tmp_path: Path) -> None:
    program = browser()
    with serving(compiled()) as page:
        async with open_door(tmp_path / "dags", origins=("https://example.org",)) as door:
            page.given.update(given(door, "shut_out"))
            saw = await seen_in_browser(program, page, tmp_path / "profile")
            assert saw == dict.fromkeys(("read", "put", "listed_header"), "TypeError")
            assert await door.service.spooled(SHARD, bytes(32)) is None
            assert await door.service.shard_size(SHARD) is None


async def test_the_page_with_the_fetch_of_node(tmp_path: Path) -> None:
    built = compiled()
    async with open_door(tmp_path / "dags") as door:
        process = await asyncio.create_subprocess_exec(
            "node",
            str(DRIVERS / "page_in_node.mjs"),
            str(built),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate(json.dumps(given(door, "trial")).encode())
        check(json.loads(output))


async def curl(*arguments: str) -> tuple[str, bytes]:
    """The headers and the body that curl got."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "-i", "--max-time", "60", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    head, _, body = output.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head, _, body = body.partition(b"\r\n\r\n")
    return head.decode().lower(), body


async def test_curl_brings_a_shard_in_parts_and_reads_it(tmp_path: Path) -> None:
    part = tmp_path / "part"
    async with open_door(tmp_path / "dags") as door:
        url = f"{door.url}/shards/{SHARD}?space={ID}"
        for start in range(0, SIZE, 4 * CHUNK_SIZE):
            part.write_bytes(SHARD_BYTES[start : start + 4 * CHUNK_SIZE])
            stop = start + part.stat().st_size
            head, _ = await curl(
                "-T", str(part), "-H", f"Content-Range: bytes {start}-{stop - 1}/{SIZE}", url
            )
            assert f" {201 if stop == SIZE else 202} " in head.splitlines()[0]
        head, _ = await curl("-I", url)
        assert f"culm-size: {SIZE}" in head
        head, body = await curl(f"{door.url}/ipfs/{ROOT}")
        assert body == CONTENT


@pytest.mark.parametrize(("origin", "listed"), [("https://a.example", True), ("https://b.example", False)])
async def test_a_preflight_names_what_a_listed_origin_may_say(
    tmp_path: Path, origin: str, listed: bool
) -> None:
    async with open_door(tmp_path / "dags", origins=("https://a.example",)) as door:
        head, _ = await curl(
            *("-X", "OPTIONS", "-H", f"Origin: {origin}", "-H", "Access-Control-Request-Method: PUT"),
            *("-H", "Access-Control-Request-Headers: authorization,content-range,last-event-id"),
            f"{door.url}/shards/{cid_of(RAW, b'')}",
        )
        assert (f"access-control-allow-origin: {origin}" in head) is listed
        assert (" 200 " in head.splitlines()[0]) is listed
