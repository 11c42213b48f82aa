"""Who may what at the HTTP door: tokens, UCANs, other origins, budgets, and the document that says it all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import select
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from culm_connectors.dag.http.answers.schemas import Problem
from culm_connectors.dag.http.routes import OPERATIONS, openapi_document
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_models.dag.blocks.cid import CAR, cid_of
from culm_models.dag.car.writer import write_car
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.ucan.forms import jwt_text
from culm_models.dag.ucan.token import Ucan
from culm_models.testing.dag.replica import NOW
from tests.connectors.dag.http.doors import CAR_TYPE, SERVICE, OpenDoor, car_of, open_door
from tests.models.dag.signers import DIDS, KEYS, publish, ucan
from tests.support.connectors.channels import SERVER_NAME, Certificates
from tests.support.process.waiting import while_working

SPACE, OTHER, WRITER = 0, 1, 2
NODE = encode_append([])
SHARD_BYTES = write_car([NODE.cid], [(NODE.cid, NODE.data)])
SHARD = cid_of(CAR, SHARD_BYTES)
TOKEN = "a-secret-of-some-length"


def bearer(token: str | Ucan) -> dict[str, str]:
    return {"Authorization": f"Bearer {jwt_text(token) if isinstance(token, Ucan) else token}"}


def may(can: str, space: int = SPACE) -> dict[str, Any]:
    return {"can": can, "with": DIDS[space]}


def token_rule(**spaces: tuple[str, ...]) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), **spaces}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[OpenDoor]:
    """A door that asks for UCANs, and knows one token."""
    rule = token_rule(append=(KEYS[SPACE].hex(),), read=(KEYS[SPACE].hex(),))
    async with open_door(tmp_path / "dags", append="ucan", read="ucan", tokens=(rule,)) as opened:
        yield opened


async def bring(door: OpenDoor, headers: dict[str, str], space: int = SPACE, *more: bytes) -> httpx.Response:
    return await door.client.post(
        f"/spaces/{KEYS[space].hex()}/nodes",
        content=car_of(NODE.data, *more),
        headers={"Content-Type": CAR_TYPE, **headers},
    )


async def test_a_configured_token_opens_what_it_names_and_nothing_else(guarded: OpenDoor) -> None:
    assert (await bring(guarded, bearer(TOKEN))).status_code == 200
    assert (await bring(guarded, bearer(TOKEN), OTHER)).status_code == 403
    wrong = await bring(guarded, bearer(TOKEN + "x"))
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, "Bearer")
    assert (await bring(guarded, {})).status_code == 401
    assert (await guarded.client.get(f"/ipfs/{NODE.cid}?format=raw")).status_code == 401
    read = await guarded.client.get(f"/ipfs/{NODE.cid}?format=raw", headers=bearer(TOKEN))
    assert read.content == NODE.data and read.headers["cache-control"].startswith("private")


async def test_a_ucan_opens_its_space_for_its_ability(guarded: OpenDoor) -> None:
    append, read = ucan(SPACE, SERVICE, may("dag/append")), ucan(SPACE, SERVICE, may("dag/read"))
    assert (await bring(guarded, bearer(append))).status_code == 200
    assert (await bring(guarded, bearer(read))).status_code == 403
    assert (await bring(guarded, bearer(append), OTHER)).status_code == 403
    url = f"/ipfs/{NODE.cid}?format=raw"
    assert (await guarded.client.get(url, headers=bearer(read))).content == NODE.data
    assert (await guarded.client.get(url, headers=bearer(append))).status_code == 403
    shard = f"/shards/{SHARD}"
    assert (await guarded.client.put(shard, content=SHARD_BYTES, headers=bearer(append))).status_code == 201
    id = f"/published/{KEYS[SPACE].hex()}"
    assert (await guarded.client.get(id, headers=bearer(append))).status_code == 403
    assert (await guarded.client.get(id, headers=bearer(read))).status_code == 404


async def test_a_shard_is_shown_to_whoever_may_read_or_append_and_else_as_absent(guarded: OpenDoor) -> None:
    shard = f"/shards/{SHARD}"
    append, read = ucan(SPACE, SERVICE, may("dag/append")), ucan(SPACE, SERVICE, may("dag/read"))
    assert (await guarded.client.put(shard, content=SHARD_BYTES, headers=bearer(append))).status_code == 201
    for token in (bearer(append), bearer(read), bearer(TOKEN)):
        head = await guarded.client.head(shard, headers=token)
        assert (head.status_code, head.headers["culm-size"]) == (200, str(len(SHARD_BYTES)))
    other = ucan(OTHER, SERVICE, may("dag/read", OTHER))
    assert (await guarded.client.head(shard, headers=bearer(other))).status_code == 404
    assert (await guarded.client.head(shard)).status_code == 401


async def test_a_chain_comes_in_the_body_and_is_known_from_then_on(guarded: OpenDoor) -> None:
    delegation = ucan(SPACE, WRITER, may("dag/*"))
    leaf = ucan(WRITER, SERVICE, may("dag/append"), prf=[delegation.cid])
    lacking = await bring(guarded, bearer(leaf))
    assert lacking.status_code == 403 and "dag.proof_missing" in lacking.json()["detail"]
    assert (await bring(guarded, bearer(leaf), SPACE, delegation.block)).status_code == 200
    assert (await bring(guarded, bearer(leaf))).status_code == 200


@pytest.mark.parametrize(
    "token",
    [
        ucan(SPACE, SERVICE, may("dag/append"), exp=NOW),
        ucan(SPACE, OTHER, may("dag/append")),
        ucan(WRITER, SERVICE, may("dag/append")),
        ucan(SPACE, SERVICE, may("dag/publish")),
    ],
)
async def test_other_ucans_open_nothing(guarded: OpenDoor, token: Ucan) -> None:
    assert (await bring(guarded, bearer(token))).status_code == 403
    assert (await bring(guarded, bearer(jwt_text(token)[:-4] + "AAAA"))).status_code == 401


async def test_what_is_of_another_space_is_not_found(guarded: OpenDoor) -> None:
    private = encode_append([SHARD])
    await guarded.service.receive(KEYS[OTHER], [private.data], bytes(32))
    read = bearer(ucan(SPACE, SERVICE, may("dag/read")))
    for query in ("?format=raw", "?format=car", ""):
        answer = await guarded.client.get(f"/ipfs/{private.cid}{query}", headers=read)
        assert (answer.status_code, answer.json()["code"]) == (404, "dag.missing_block")
    lack = await guarded.client.post(
        f"/spaces/{KEYS[SPACE].hex()}/lack", json=[private.cid.text], headers=read
    )
    assert lack.json() == {"nodes": [private.cid.text], "shards": [], "opaque": []}
    other = bearer(ucan(OTHER, SERVICE, may("dag/read", OTHER)))
    assert (await guarded.client.get(f"/ipfs/{private.cid}?format=raw", headers=other)).status_code == 200


async def test_a_publish_needs_nobody_to_be_let_in(guarded: OpenDoor) -> None:
    assert (await guarded.client.post("/publishes", content=publish().data)).status_code == 201


async def test_nothing_is_open_by_default(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags", append="allowed", read="allowed") as door:
        good = bearer(ucan(SPACE, SERVICE, may("dag/append")))
        assert (await bring(door, good)).status_code == 401
        assert DagHttpSettings().append == DagHttpSettings().read == "allowed"


async def test_pages_of_other_origins_may_call_only_where_they_are_listed(tmp_path: Path) -> None:
    page = {"Origin": "https://page.example"}
    preflight = {
        **page,
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "authorization,content-range",
    }
    async with open_door(tmp_path / "none") as door:
        answer = await door.client.get("/openapi.json", headers=page)
        assert "access-control-allow-origin" not in answer.headers
        assert (await door.client.options(f"/shards/{SHARD}", headers=preflight)).status_code == 405
    async with open_door(tmp_path / "one", origins=("https://page.example",)) as door:
        answer = await door.client.options(f"/shards/{SHARD}", headers=preflight)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
        refused = await door.client.put(f"/shards/{SHARD}", content=b"", headers=page)
        assert refused.headers["access-control-allow-origin"] == "https://page.example"
        assert "Culm-Ranges" in refused.headers["access-control-expose-headers"]
        other = {**preflight, "Origin": "https://other.example"}
        assert (await door.client.options(f"/shards/{SHARD}", headers=other)).status_code == 400
    with pytest.raises(ValidationError):
        DagHttpSettings(origins=("*",))


async def test_more_requests_than_a_budget_are_refused(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags", requests_per_second=0.001, burst_requests=2) as door:
        statuses = [(await door.client.get("/openapi.json")).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_streams_of_events_of_a_client_are_bounded(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags", max_event_streams_per_client=1) as door:
        url = f"/events?id={KEYS[0].hex()}"
        async with door.client.stream("GET", url) as stream:
            assert stream.status_code == 200
            await anext(stream.aiter_bytes())
            assert (await door.client.get(url)).status_code == 429


async def raw_connection(door: OpenDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*door.address)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the door ends a connection, whatever it says first."""
    try:
        async with while_working():
            while await reader.read(65_536):
                pass
    except ConnectionError:
        pass
    return True


async def is_refused(door: OpenDoor) -> bool:
    """Whether the door takes no further connection."""
    try:
        reader, _ = await raw_connection(door)
    except ConnectionError:
        return True
    return await is_closed(reader)


@pytest.mark.parametrize("sent", [b"", b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n"])
async def test_a_connection_that_does_not_say_its_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    async with open_door(tmp_path / "dags", head_timeout_s=0.2) as door:
        reader, writer = await raw_connection(door)
        writer.write(sent)
        assert await is_closed(reader)
        writer.close()


async def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags", body_grace_s=0.2) as door:
        reader, writer = await raw_connection(door)
        writer.write(b"POST /publishes HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        answer = await reader.readuntil(b"\r\n")
        assert b" 408 " in answer
        assert await is_closed(reader)
        writer.close()


@pytest.mark.parametrize("takes_some", [False, True])
async def test_a_client_that_takes_its_answer_too_slowly_is_cut_off(tmp_path: Path, takes_some: bool) -> None:
    limits = {"write_timeout_s": 0.3, "write_bytes_per_second": 1e9}
    async with open_door(tmp_path / "dags", **limits) as door:
        leaf = bytes(1 << 20)
        blocks = [(cid_of(0x55, leaf[:-1] + bytes([n])), leaf[:-1] + bytes([n])) for n in range(64)]
        links = b"".join(b"\xd8\x2a\x58\x25\x00" + cid.raw for cid, _ in blocks)
        root = b"\x98\x40" + links
        data = write_car([], [(cid_of(0x71, root), root), *blocks])
        await door.service.work(lambda folder: folder.add_shard(KEYS[0], cid_of(CAR, data), data))
        url = f"/ipfs/{cid_of(0x71, root)}?format=car"
        with socket.create_connection(door.address) as client:
            client.sendall(f"GET {url} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            # It is told when the other side has ended the connection.
            poll = select.poll()
            poll.register(client, 0)

            def is_cut_off() -> bool:
                if not takes_some:
                    return bool(poll.poll(20_000))
                with contextlib.suppress(ConnectionResetError):
                    while not poll.poll(10) and client.recv(16_384):
                        pass
                return bool(poll.poll(0))

            assert await asyncio.to_thread(is_cut_off)


async def test_many_idle_connections_of_an_address_leave_room_for_others(tmp_path: Path) -> None:
    bounds = {"max_connections_per_address": 3, "max_waiting_connections": 0}
    async with open_door(tmp_path / "dags", **bounds) as door:
        opened = [await raw_connection(door) for _ in range(3)]
        assert await is_refused(door)
        for _, other in opened:
            other.close()
            await other.wait_closed()
        async with while_working():
            while True:
                try:
                    assert (await door.client.get("/openapi.json")).status_code == 200
                    break
                except httpx.TransportError:
                    continue


async def test_the_document_is_served_and_says_what_the_routes_are(tmp_path: Path) -> None:
    async with open_door(tmp_path / "dags") as door:
        document = (await door.client.get("/openapi.json")).json()
        assert document == json.loads(json.dumps(openapi_document()))
        routes = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
        assert routes == {(operation.path, operation.method) for operation in OPERATIONS}
        refs = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
        assert refs and refs <= document["components"]["schemas"].keys()
        for path in document["paths"]:
            named = set(re.findall(r"{(\w+)}", path))
            for operation in document["paths"][path].values():
                assert named == {
                    parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"
                }
        missing = await door.client.get("/elsewhere")
        assert Problem.model_validate(missing.json()).status == missing.status_code == 404


async def test_over_tls_curl_brings_and_reads(tmp_path: Path) -> None:
    shown = Certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(shown.ca))
    # The client of these tests calls by number, curl by name.
    context.check_hostname = False
    tls = {"certificate": shown.server.certificate, "private_key": shown.server.private_key}
    async with open_door(tmp_path / "dags", verify=context, tls=tls) as door:
        assert (await door.client.get("/openapi.json")).status_code == 200
        car = tmp_path / "shard.car"
        car.write_bytes(SHARD_BYTES)
        host, port = door.address
        url = f"https://{SERVER_NAME}:{port}"

        async def curl(*arguments: str) -> bytes:
            options = ("--silent", "--show-error", "--fail", "--cacert", str(shown.ca))
            resolve = f"{SERVER_NAME}:{port}:{host}"
            done = await asyncio.create_subprocess_exec(
                "curl", *options, "--resolve", resolve, *arguments, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await done.communicate()
            assert done.returncode == 0
            return out

        answer = await curl("-T", str(car), f"{url}/shards/{SHARD}?space={KEYS[0].hex()}")
        assert json.loads(answer)["is_whole"]
        assert await curl(f"{url}/ipfs/{NODE.cid}?format=raw") == NODE.data
