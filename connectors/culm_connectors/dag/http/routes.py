"""The table of the door's operations: routes and the OpenAPI document are both made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from culm_connectors.dag.http.answers.content import DAG_JSON_TYPE
from culm_connectors.dag.http.answers.gateway import RAW_TYPE, get_ipfs
from culm_connectors.dag.http.answers.nodes import (
    CAR_TYPE,
    DAG_CBOR_TYPE,
    JSON_TYPE,
    post_lack,
    post_nodes,
    post_publish,
)
from culm_connectors.dag.http.answers.published import EVENTS_TYPE, get_events, get_log, get_published
from culm_connectors.dag.http.answers.schemas import (
    BlocksAnswer,
    DirectoryView,
    LackAnswer,
    LogView,
    PartAnswer,
    Problem,
    PublishAnswer,
    PublishedView,
    RevisionView,
    SymlinkView,
)
from culm_connectors.dag.http.answers.shards import head_shard, put_shard
from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.door import Door
from culm_connectors.dag.http.problems import PROBLEM_TYPE

Handler = Callable[[Door, Request, HttpClient], Awaitable[Response]]
Model = type[BaseModel]
BYTES_TYPE: Final = "application/octet-stream"
_COMPONENTS: Final = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the path, the query or the headers."""

    name: str
    place: str
    description: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class HttpOperation:
    """One row: method and path, the handler, and the documentation."""

    method: str
    path: str
    """Path as OpenAPI writes it."""
    handler: Handler
    summary: str
    route: str = ""
    """Path as Starlette writes it, if that differs."""
    parameters: tuple[Parameter, ...] = ()
    bodies: tuple[str, ...] = ()
    """Media types that are accepted."""
    answers: dict[int, tuple[str, tuple[tuple[str, tuple[Model, ...]], ...]]] = field(default_factory=dict)
    """By status: its meaning, and its media types with their models; no media types without a body."""
    problems: tuple[int, ...] = ()
    """Statuses with problem details, in addition to those of every operation."""


def _json(*models: Model) -> tuple[tuple[str, tuple[Model, ...]], ...]:
    return ((JSON_TYPE, models),)


def _plain(*types: str) -> tuple[tuple[str, tuple[Model, ...]], ...]:
    return tuple((media_type, ()) for media_type in types)


_CID: Final = Parameter("cid", "path", "a CID as text", True)
_ID: Final = Parameter("id", "path", "a public key: 64 hex digits, or a did:key", True)
_SPACE: Final = Parameter("space", "path", "a public key: 64 hex digits, or a did:key", True)
_FOR_SPACE: Final = Parameter("space", "query", "the space; not needed with a token for one space")
_KNOWN: Final = Parameter("If-None-Match", "header", "an ETag that is had")
_IPFS_ANSWERS: Final = {
    200: (
        "a block, a CAR, or the content at the path",
        (
            *_plain(RAW_TYPE, CAR_TYPE, BYTES_TYPE, DAG_JSON_TYPE),
            *_json(DirectoryView, SymlinkView),
        ),
    ),
    206: ("a range of a file or a block", _plain(BYTES_TYPE, RAW_TYPE)),
    304: ("it is had", ()),
}
_IPFS_PARAMETERS: Final = (
    Parameter("path", "path", "a CID, followed by the segments of a path", True),
    Parameter("format", "query", "`raw` or `car`; by default as in `Accept`, else the content at the path"),
    Parameter("dag-scope", "query", "of a CAR: `block`, `entity` or `all`"),
    Parameter("entity-bytes", "query", "of a CAR: `from:to` or `from:*` of a file; means `entity`"),
    Parameter("car-version", "query", "of a CAR: `1`; counts more than the parameter in `Accept`"),
    Parameter("car-order", "query", "of a CAR: `dfs`, or `unk` for any"),
    Parameter("car-dups", "query", "of a CAR: `y` repeats blocks, `n` (the default) gives each once"),
    Parameter("start", "query", "of a directory: where the page begins, the `next` of the previous page"),
    Parameter("filename", "query", "the name under which to save it, and by which its type is guessed"),
    Parameter("download", "query", "`true`: a file is for saving, not for showing"),
    Parameter("Accept", "header", "media types with qualities; a CAR's with `version`, `order` and `dups`"),
    Parameter("Cache-Control", "header", "`only-if-cached`: 412 if a block is missing"),
    Parameter("Range", "header", "of a file or a block: one range of bytes"),
    _KNOWN,
)

OPERATIONS: Final = (
    HttpOperation(
        "HEAD",
        "/shards/{cid}",
        head_shard,
        "Whether a shard is present: `Culm-Size`; otherwise 404 with the ranges that this client "
        "has sent: `Culm-Ranges`",
        parameters=(_CID, _FOR_SPACE),
        answers={200: ("it is here whole", ()), 404: ("it is not", ())},
    ),
    HttpOperation(
        "PUT",
        "/shards/{cid}",
        put_shard,
        "Send a part of a shard: aligned at 917,504 bytes, at most four such chunks",
        parameters=(
            _CID,
            _FOR_SPACE,
            Parameter("Content-Range", "header", "`bytes first-last/size`; without it the body is all"),
        ),
        bodies=(CAR_TYPE, BYTES_TYPE),
        answers={
            200: ("it was here", _json(PartAnswer)),
            201: ("it is whole, verified and durable", _json(PartAnswer)),
            202: ("the part is kept; `Culm-Ranges`", _json(PartAnswer)),
        },
        problems=(408, 409, 413, 422, 503, 507),
    ),
    HttpOperation(
        "POST",
        "/spaces/{space}/nodes",
        post_nodes,
        "Send nodes and UCANs, in any order; each gets a status and a code",
        parameters=(_SPACE,),
        bodies=(CAR_TYPE,),
        answers={
            200: ("what became of each", _json(BlocksAnswer)),
            507: ("no capacity for any of them", _json(BlocksAnswer)),
        },
        problems=(408, 413, 422),
    ),
    HttpOperation(
        "POST",
        "/publishes",
        post_publish,
        "Send a publish, alone or in a CAR with its UCANs",
        bodies=(DAG_CBOR_TYPE, CAR_TYPE),
        answers={
            201: ("it is in the order", _json(PublishAnswer)),
            202: ("it waits; the body names what for", _json(PublishAnswer)),
        },
        problems=(408, 413, 422, 503, 507),
    ),
    HttpOperation(
        "POST",
        "/spaces/{space}/lack",
        post_lack,
        "What of a list of heads is not here?",
        parameters=(_SPACE,),
        bodies=(JSON_TYPE, DAG_CBOR_TYPE),
        answers={200: ("three lists", (*_json(LackAnswer), *_plain(DAG_CBOR_TYPE)))},
        problems=(408, 413, 422),
    ),
    HttpOperation(
        "GET",
        "/ipfs/{path}",
        get_ipfs,
        "Read by CID: a trustless gateway, and files with ranges",
        route="/ipfs/{path:path}",
        parameters=_IPFS_PARAMETERS,
        answers=_IPFS_ANSWERS,
        problems=(404, 406, 412, 416, 422),
    ),
    HttpOperation(
        "GET",
        "/published/{id}",
        get_published,
        "What is published under an id, or with `ID@CID` under the id as of that operation",
        parameters=(_ID,),
        answers={200: ("tip, latest complete and heads", _json(PublishedView, RevisionView))},
        problems=(404,),
    ),
    HttpOperation(
        "GET",
        "/published/{id}/log",
        get_log,
        "The order of an id, oldest first, in pages of a thousand",
        parameters=(_ID, Parameter("start", "query", "the position to begin at")),
        answers={200: ("operations with their states", _json(LogView))},
    ),
    HttpOperation(
        "GET",
        "/events",
        get_events,
        "Server-sent events of an id: tip, complete, superseded, revoked",
        parameters=(
            Parameter("id", "query", "a public key: 64 hex digits, or a did:key", True),
            Parameter("Last-Event-ID", "header", "resumes after that event"),
        ),
        answers={200: ("a stream that does not end", _plain(EVENTS_TYPE))},
    ),
)
"""The operations of the door; HEAD is answered on every route of GET."""
COMMON_PROBLEMS: Final = (400, 401, 403, 429)


def openapi_document() -> dict[str, Any]:
    """Return the document that the door serves as `/openapi.json`."""
    models: dict[type[BaseModel], None] = {Problem: None}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        for _, types in operation.answers.values():
            models |= {model: None for _, models_of_type in types for model in models_of_type}
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    _, schemas = models_json_schema([(model, "serialization") for model in models], ref_template=_COMPONENTS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Culm: DAG replication and publishing",
            "version": "1",
            "description": "Clients verify everything that they read by its CIDs and need not trust "
            "this door.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "a configured token, or the JWT of a UCAN with dag/append or dag/read",
                }
            },
        },
        "security": [{}, {"bearer": []}],
    }


def _operation(operation: HttpOperation) -> dict[str, Any]:
    description: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "parameters": [
            {
                "name": parameter.name,
                "in": parameter.place,
                "required": parameter.is_required,
                "description": parameter.description,
                "schema": {"type": "string"},
            }
            for parameter in operation.parameters
        ],
        "responses": _responses(operation),
    }
    if operation.bodies:
        description["requestBody"] = {"required": True, "content": {name: {} for name in operation.bodies}}
    return description


def _responses(operation: HttpOperation) -> dict[str, Any]:
    problem = {PROBLEM_TYPE: {"schema": {"$ref": _COMPONENTS.format(model=Problem.__name__)}}}
    responses: dict[str, Any] = {}
    for status in (*COMMON_PROBLEMS, *operation.problems):
        responses[str(status)] = {"description": "refused, with a code", "content": dict(problem)}
    for status, (meaning, types) in operation.answers.items():
        content = {name: _schema(models) for name, models in types}
        known = responses.get(str(status), {}).get("content", {})
        responses[str(status)] = {"description": meaning, "content": {**known, **content}}
    return responses


def _schema(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    refs = [{"$ref": _COMPONENTS.format(model=model.__name__)} for model in models]
    if not refs:
        return {}
    return {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}
