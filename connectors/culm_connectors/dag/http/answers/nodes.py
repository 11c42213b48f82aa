"""Takes nodes, UCANs and publishes, and answers which ancestors and shards of heads are missing."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from culm_connectors.dag.http.accept import parse_accept, preferred
from culm_connectors.dag.http.answers.schemas import (
    BlockAnswer,
    BlocksAnswer,
    LackAnswer,
    PublishAnswer,
    texts,
)
from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.door import Door, json_answer, parse_cid, path_space
from culm_connectors.dag.http.problems import RequestMalformed, problem, status_of
from culm_connectors.dag.store.outcomes import BlockOutcome, MissingBlocks
from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.car.reader import read_car
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.needs import may_be_node, read_block
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import PublishChange
from culm_models.dag.wire.messages import AckStatus

CAR_TYPE: Final = "application/vnd.ipld.car"
DAG_CBOR_TYPE: Final = "application/vnd.ipld.dag-cbor"
JSON_TYPE: Final = "application/json"
_BLOCKS_MAX: Final = 10_000
_PUBLISH_BLOCKS_MAX: Final = 1_024


async def post_nodes(door: Door, request: Request, client: HttpClient) -> Response:
    """Take a CAR of nodes and UCANs, in any order; answers with each outcome, once it is durable."""
    space = path_space(request)
    door.access.require_someone(client, SpaceAbility.APPEND)
    data = await door.body(request, client, door.settings.max_body_bytes)
    blocks = await asyncio.to_thread(_car_blocks, door, data, _BLOCKS_MAX)
    await door.access.require(client, SpaceAbility.APPEND, space, blocks)
    outcomes = await door.service.receive(space, list(blocks.values()), client.peer)
    answer = BlocksAnswer(results=[BlockAnswer.model_validate(outcome) for outcome in outcomes])
    return json_answer(answer, _status_of_all(outcomes))


async def post_publish(door: Door, request: Request, client: HttpClient) -> Response:
    """Take a publish, or a CAR of one with its UCANs: 201 in the order, 202 waiting, else the refusal.

    No right is required: the publish carries its own proof.
    """
    data = await door.body(request, client, door.settings.max_body_bytes)
    is_car = _type_of(request) == CAR_TYPE
    blocks = await asyncio.to_thread(_blocks_of_publish, door, data, is_car)
    try:
        cid, change = await asyncio.to_thread(_publish_of, door, blocks)
    except DagError:
        await _report_refused(door, client, blocks)
        raise
    # UCANs come first, so that the publish is validated once.
    ordered = [block for other, block in blocks.items() if other != cid] + [blocks[cid]]
    outcomes = await door.service.receive(change.id, ordered, client.peer)
    outcome = outcomes[-1]
    results = [BlockAnswer.model_validate(outcome) for outcome in outcomes]
    if outcome.status in (AckStatus.REFUSED, AckStatus.LATER):
        code = outcome.code or "dag"
        listed = [answer_of_block.model_dump() for answer_of_block in results]
        status = status_of(code) if outcome.code else 503
        return problem(status, code, f"the publish {cid} is not taken", results=listed)
    answer = PublishAnswer(
        cid=cid.text, is_in_order=outcome.in_order, waits_for=texts(outcome.missing), results=results
    )
    return json_answer(answer, 201 if outcome.in_order else 202)


async def _report_refused(door: Door, client: HttpClient, blocks: dict[Cid, bytes]) -> None:
    """Pass malformed blocks to the service, which refuses and reports them with their origin."""
    if refused := await asyncio.to_thread(_refused_for_form, door, blocks):
        await door.service.receive(None, refused, client.peer)


def _refused_for_form(door: Door, blocks: dict[Cid, bytes]) -> list[bytes]:
    verdict = door.service.verdict
    malformed: list[bytes] = []
    for cid, block in blocks.items():
        try:
            read_block(cid, block, legacy=verdict.legacy, bounds=verdict.bounds)
        except DagError:
            malformed.append(block)
    return malformed


async def post_lack(door: Door, request: Request, client: HttpClient) -> Response:
    """Answer what is missing of a list of heads, JSON or DAG-CBOR. For clients that may append or read."""
    space = path_space(request)
    await door.access.require_either(client, space)
    data = await door.body(request, client, door.settings.max_body_bytes)
    heads = await asyncio.to_thread(_heads, data, _type_of(request), door.settings.max_heads)
    hidden: list[Cid] = []
    end = await door.begin_read(request, client)
    try:
        if "anyone" not in (door.settings.append, door.settings.read):
            hidden = [cid for cid in heads if not await door.service.belongs(space, cid)]
        missing = await door.service.missing([cid for cid in heads if cid not in hidden])
    finally:
        end()
    if hidden:
        missing = MissingBlocks(
            tuple(sorted({*missing.nodes, *hidden})), missing.shards, missing.opaque_shards
        )
    accepted = parse_accept(request.headers.getlist("accept"))
    if preferred(accepted, (JSON_TYPE, DAG_CBOR_TYPE)) == DAG_CBOR_TYPE:
        value = {
            "nodes": list(missing.nodes),
            "shards": list(missing.shards),
            "opaque": list(missing.opaque_shards),
        }
        headers = {"Cache-Control": "no-store"}
        return Response(encode_dag_cbor(value), 200, headers, DAG_CBOR_TYPE)
    return json_answer(LackAnswer.model_validate(missing))


def _type_of(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _blocks_of_publish(door: Door, data: bytes, is_car: bool) -> dict[Cid, bytes]:
    if is_car:
        return _car_blocks(door, data, _PUBLISH_BLOCKS_MAX)
    return {cid_of(DAG_CBOR, data): data}


def _car_blocks(door: Door, data: bytes, max_blocks: int) -> dict[Cid, bytes]:
    """Return the blocks of a CAR, each once, in its order. Raises `DagError`, `RequestMalformed`."""
    verdict = door.service.verdict
    sections = read_car(data, hashes=verdict.hashes, bounds=verdict.bounds).sections
    if len(sections) > max_blocks:
        raise RequestMalformed(f"more than {max_blocks} blocks in one request")
    blocks: dict[Cid, bytes] = {}
    for section in sections:
        if not may_be_node(section.cid):
            raise RequestMalformed(f"{section.cid.text[:100]} is neither a node nor a UCAN")
        blocks[section.cid] = bytes(section.data)
    if not blocks:
        raise RequestMalformed("no block is in the CAR")
    return blocks


def _publish_of(door: Door, blocks: dict[Cid, bytes]) -> tuple[Cid, PublishChange]:
    """Return the only publish among blocks. Raises the refusal of a single block, or `RequestMalformed`."""
    verdict = door.service.verdict
    publishes: list[tuple[Cid, PublishChange]] = []
    for cid, block in blocks.items():
        try:
            node = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds)
        except DagError:
            if len(blocks) == 1:
                raise
            continue
        if isinstance(node.change, PublishChange):
            publishes.append((cid, node.change))
    if len(publishes) != 1:
        raise RequestMalformed(f"{len(publishes)} publishes, but one is required")
    return publishes[0]


def _status_of_all(outcomes: list[BlockOutcome]) -> int:
    """Return 200, or 507 if there was no capacity for any of the blocks."""
    later = [outcome for outcome in outcomes if outcome.status is AckStatus.LATER]
    return 507 if later and len(later) == len(outcomes) else 200


def _heads(data: bytes, kind: str, max_heads: int) -> list[Cid]:
    if kind == DAG_CBOR_TYPE:
        heads = decode_dag_cbor(data)
    else:
        try:
            listed = json.loads(data)
        except (ValueError, RecursionError):
            raise RequestMalformed("the body is neither JSON nor declared as DAG-CBOR") from None
        heads = [parse_cid(text) for text in listed] if _is_list_of(listed, str) else None
    if not _is_list_of(heads, Cid) or len(heads) > max_heads:
        raise RequestMalformed(f"the body is not a list of at most {max_heads} CIDs")
    return list(dict.fromkeys(heads))


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(member, kind) for member in value)
