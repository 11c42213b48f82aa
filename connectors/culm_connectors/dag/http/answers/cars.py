"""A CAR of the blocks of a path and, by its scope, of those below it (IPIP-402, IPIP-412)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import QueryParams
from starlette.responses import Response

from culm_connectors.dag.http.answers.nodes import CAR_TYPE
from culm_connectors.dag.http.answers.reading import Reading, disposition
from culm_connectors.dag.http.problems import RequestMalformed
from culm_connectors.edge.fair_turns import in_turns
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.car.writer import car_header, car_section
from culm_models.dag.paths.resolve import path_steps
from culm_models.dag.paths.scopes import DagScope, EntityBytes, blocks_of_end, parse_entity_bytes
from culm_models.dag.walk.reach import FindBlock, block_of

# Order `unk` allows any; ours is the same one.
_VARIANTS: Final = {"version": ("1",), "order": ("dfs", "unk"), "dups": ("n", "y")}


@dataclass(frozen=True, slots=True)
class CarForm:
    """How blocks stand in a CAR: depth first, each once or wherever the walk comes to it."""

    repeats: bool


def car_form(parameters: Mapping[str, str], query: QueryParams) -> CarForm | None:
    """The form that parameters of the media type name, and the query before them; None of an unknown one."""
    asked = {name: query.get(f"car-{name}") or parameters.get(name) for name in _VARIANTS}
    if any(value and value not in _VARIANTS[name] for name, value in asked.items()):
        return None
    return CarForm(repeats=asked["dups"] == "y")


async def answer_car(reading: Reading, form: CarForm, root: Cid, segments: list[str], name: str) -> Response:
    """The CAR of a path. Raises where a block on the way is not here."""
    scope, entity = _scope(reading.request.query_params)
    end = await in_turns(reading.step, lambda find: path_steps(root, segments, find))
    variant = hashlib.sha256(repr((segments, scope, entity, form)).encode()).hexdigest()[:16]
    etag = f'"{root.text}.car.{variant}"'
    headers = reading.headers(etag, end.roots)
    if reading.has_etag(etag):
        return Response(None, 304, headers)
    headers |= {"Content-Disposition": disposition("attachment", name), "Accept-Ranges": "none"}

    def read(find: FindBlock) -> Iterator[bytes]:
        cids = blocks_of_end(end, find, scope, entity, repeats=form.repeats, most=reading.walk_blocks)
        return _car(root, cids, find)

    kind = f"{CAR_TYPE}; version=1; order=dfs; dups={'y' if form.repeats else 'n'}"
    return await reading.stream(read, 200, headers, kind)


def _scope(query: QueryParams) -> tuple[DagScope, EntityBytes | None]:
    try:
        scope = DagScope(query.get("dag-scope", "all"))
    except ValueError:
        raise RequestMalformed("dag-scope is block, entity or all") from None
    named = query.get("entity-bytes")
    if named is None:
        return scope, None
    # A range is one of an entity: as with other gateways, it says so itself.
    return DagScope.ENTITY if scope is DagScope.ALL else scope, parse_entity_bytes(named)


def _car(root: Cid, cids: Iterator[Cid], find: FindBlock) -> Iterator[bytes]:
    yield car_header([root])
    for cid in cids:
        yield car_section(cid, block_of(cid, find))
