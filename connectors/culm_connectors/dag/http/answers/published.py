"""What is published under an id: its tip, its order, one revision of it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from culm_connectors.dag.http.answers.schemas import (
    LogView,
    PublishedView,
    PublishView,
    RevisionView,
    publish_view,
)
from culm_connectors.dag.http.door import Door, json_answer, parse_cid, parse_space, path_text
from culm_connectors.dag.http.problems import NotHere, RequestMalformed
from culm_connectors.dag.store.outcomes import OrderedPublish, PublishedDag
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.publish.states import PublishState

_PAGE: Final = 1_000


async def get_published(door: Door, request: Request) -> Response:
    """`/published/ID`, or `/published/ID@CID` for the id as of that operation."""
    name, _, revision = path_text(request.path_params["id"]).partition("@")
    published = await _published(door, request, name)
    if not revision:
        if published.tip is None and not published.waiting:
            raise NotHere("nothing is published under this id")
        return json_answer(PublishedView.model_validate(published))
    cid = parse_cid(revision)
    place = next((at for at, one in enumerate(published.order) if one.cid == cid), None)
    if place is None:
        raise NotHere(f"{cid} is not in the order of this id")
    one = PublishView.model_validate(published.order[place])
    before = _latest_complete(published.order[: place + 1])
    return json_answer(
        RevisionView(id=published.id.hex(), position=place, publish=one, latest_complete=publish_view(before))
    )


async def get_log(door: Door, request: Request) -> Response:
    """`/published/ID/log`: the order, oldest first, from `start` on."""
    published = await _published(door, request, path_text(request.path_params["id"]))
    text = request.query_params.get("start", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RequestMalformed("start is a position")
    start = int(text)
    listed = [PublishView.model_validate(one) for one in published.order[start : start + _PAGE]]
    return json_answer(LogView(id=published.id.hex(), count=len(published.order), start=start, log=listed))


async def _published(door: Door, request: Request, name: str) -> PublishedDag:
    client = await door.enter(request)
    id = parse_space(name)
    await door.access.require(client, SpaceAbility.READ, id)
    return await door.published(id)


def _latest_complete(order: tuple[OrderedPublish, ...]) -> OrderedPublish | None:
    return next((one for one in reversed(order) if one.state is PublishState.COMPLETE), None)
