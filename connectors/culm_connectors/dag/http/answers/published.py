"""Answers about a published id: its tip, its order, one revision, and a stream of its changes.

Server-sent events are `tip`, `complete`, `superseded`, `revoked`. The id of an event encodes the state that
its reader knows after it. So any door, also after a restart, can continue the stream: events are the
difference between that state and the current one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from culm_connectors.dag.http.answers.schemas import (
    LogView,
    PublishedView,
    PublishView,
    RevisionView,
    publish_view,
)
from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.door import Door, json_answer, parse_cid, parse_space, path_text
from culm_connectors.dag.http.event_sources import StreamsEnded
from culm_connectors.dag.http.problems import NotHere, RequestMalformed
from culm_connectors.dag.store.outcomes import OrderedPublish, PublishedDag
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.publish.states import PublishState

EVENTS_TYPE: Final = "text/event-stream"
_NOTHING: Final = "-"
_DIGEST_LETTERS: Final = 16
_MARK_MAX: Final = 400
_PAGE: Final = 1_000


async def get_published(door: Door, request: Request, client: HttpClient) -> Response:
    """Answer `/published/ID`, or `/published/ID@CID` for the id as of that operation."""
    name, _, revision = path_text(request.path_params["id"]).partition("@")
    published = await _published(door, client, name)
    if not revision:
        if published.tip is None and not published.waiting:
            raise NotHere("nothing is published under this id")
        return json_answer(PublishedView.model_validate(published))
    cid = parse_cid(revision)
    position = next((at for at, publish in enumerate(published.order) if publish.cid == cid), None)
    if position is None:
        raise NotHere(f"{cid} is not in the order of this id")
    publish = PublishView.model_validate(published.order[position])
    before = replace(published, order=published.order[: position + 1]).latest_complete
    return json_answer(
        RevisionView(
            id=published.id.hex(), position=position, publish=publish, latest_complete=publish_view(before)
        )
    )


async def get_log(door: Door, request: Request, client: HttpClient) -> Response:
    """Answer `/published/ID/log`: the order, oldest first, from `start` on."""
    published = await _published(door, client, path_text(request.path_params["id"]))
    text = request.query_params.get("start", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RequestMalformed("start is a position")
    start = int(text)
    listed = [PublishView.model_validate(publish) for publish in published.order[start : start + _PAGE]]
    return json_answer(LogView(id=published.id.hex(), count=len(published.order), start=start, log=listed))


async def _published(door: Door, client: HttpClient, name: str) -> PublishedDag:
    id = parse_space(name)
    await door.access.require(client, SpaceAbility.READ, id)
    return await door.published(id)


@dataclass(frozen=True, slots=True)
class EventMark:
    """State that a reader knows: tip, latest complete publish, and a digest of the revoked publishes."""

    tip: str = _NOTHING
    complete: str = _NOTHING
    revoked: str = _NOTHING

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a `Last-Event-ID`. Raises `RequestMalformed`."""
        parts = text.split(".")
        if len(text) > _MARK_MAX or len(parts) != 3:
            raise RequestMalformed("Last-Event-ID was not issued by this door")
        return cls(*parts)

    @property
    def text(self) -> str:
        """Return the mark as the id of an event."""
        return f"{self.tip}.{self.complete}.{self.revoked}"


@dataclass(frozen=True, slots=True)
class DagEvent:
    """One event, and the state that its reader knows after it."""

    name: str
    data: dict[str, Any]
    mark: EventMark

    def encode(self) -> bytes:
        """Encode the event for the stream."""
        data = json.dumps(self.data, separators=(",", ":"))
        return f"id: {self.mark.text}\nevent: {self.name}\ndata: {data}\n\n".encode()


def events_since(mark: EventMark, published: PublishedDag) -> list[DagEvent]:
    """Return the events for a reader: a function of the state that it knows and of the published state."""
    events: list[DagEvent] = []
    id, tip, complete = published.id.hex(), published.tip, published.latest_complete
    if tip is not None and tip.cid.text != mark.tip:
        former, mark = mark.tip, replace(mark, tip=tip.cid.text)
        if former != _NOTHING and not _builds_on(published, tip, former):
            events.append(DagEvent("superseded", {"id": id, "cid": former, "tip": tip.cid.text}, mark))
        events.append(DagEvent("tip", {"id": id, "publish": _view(tip)}, mark))
    revoked = [publish.cid.text for publish in published.order if publish.state is PublishState.REVOKED]
    digest = _digest(revoked)
    if digest != mark.revoked:
        mark = replace(mark, revoked=digest)
        events.append(DagEvent("revoked", {"id": id, "cids": revoked}, mark))
    now = _NOTHING if complete is None else complete.cid.text
    if now != mark.complete:
        mark = replace(mark, complete=now)
        events.append(DagEvent("complete", {"id": id, "publish": _view(complete)}, mark))
    return events


def _view(publish: OrderedPublish | None) -> dict[str, Any] | None:
    view = publish_view(publish)
    return None if view is None else view.model_dump()


def _digest(cids: list[str]) -> str:
    if not cids:
        return _NOTHING
    return hashlib.sha256("\n".join(sorted(cids)).encode()).hexdigest()[:_DIGEST_LETTERS]


def _builds_on(published: PublishedDag, tip: OrderedPublish, former: str) -> bool:
    """Return whether a publish is an ancestor of the tip."""
    priors = {publish.cid: publish.prior for publish in published.order}
    at = tip.prior
    while at is not None:
        if at.text == former:
            return True
        at = priors.get(at)
    return False


async def get_events(door: Door, request: Request, client: HttpClient) -> Response:
    """Answer with a stream of events of one id; `Last-Event-ID` continues an earlier stream."""
    id = parse_space(request.query_params.get("id", ""))
    await door.access.require(client, SpaceAbility.READ, id)
    last = request.headers.get("last-event-id", "")
    mark = EventMark.parse(last) if last else EventMark()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    door.budgets.require_stream(client)
    return StreamingResponse(_stream(door, client, id, mark), 200, headers, EVENTS_TYPE)


async def _stream(door: Door, client: HttpClient, id: bytes, mark: EventMark) -> AsyncIterator[bytes]:
    with door.budgets.streaming(client), door.events.streaming(id) as source:
        yield b"retry: 2000\n\n"
        published: PublishedDag | None = None
        while not door.events.has_ended:
            try:
                async with asyncio.timeout(door.settings.heartbeat_s):
                    published = await source.after(published)
            except StreamsEnded:
                return
            except TimeoutError:
                # Access may have been withdrawn meanwhile.
                await door.access.require(client, SpaceAbility.READ, id)
                yield b": still here\n\n"
                continue
            for event in events_since(mark, published):
                mark = event.mark
                yield event.encode()
