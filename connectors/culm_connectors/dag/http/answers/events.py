"""Server-sent events of an id: `tip`, `complete`, `superseded`, `revoked`.

The id of an event says what its reader knows by then, so any door, also after a restart, goes on from it:
events are the difference between that and what is published now.
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

from culm_connectors.dag.http.answers.schemas import publish_view
from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.door import Door, parse_space
from culm_connectors.dag.http.problems import RequestMalformed
from culm_connectors.dag.store.outcomes import OrderedPublish, PublishedDag
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.publish.states import PublishState

EVENTS_TYPE: Final = "text/event-stream"
_NOTHING: Final = "-"
_DIGEST_LETTERS: Final = 16
_MARK_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class EventMark:
    """What a reader knows: tip and latest complete publish, and a digest of those that are revoked."""

    tip: str = _NOTHING
    complete: str = _NOTHING
    revoked: str = _NOTHING

    @classmethod
    def parse(cls, text: str) -> Self:
        """The mark of a `Last-Event-ID`. Raises `RequestMalformed`."""
        parts = text.split(".")
        if len(text) > _MARK_MAX or len(parts) != 3:
            raise RequestMalformed("Last-Event-ID is none of this door")
        return cls(*parts)

    @property
    def text(self) -> str:
        """As the id of an event."""
        return f"{self.tip}.{self.complete}.{self.revoked}"


@dataclass(frozen=True, slots=True)
class DagEvent:
    """One event, and what its reader knows by then."""

    name: str
    data: dict[str, Any]
    mark: EventMark

    def encode(self) -> bytes:
        """As it stands in the stream."""
        data = json.dumps(self.data, separators=(",", ":"))
        return f"id: {self.mark.text}\nevent: {self.name}\ndata: {data}\n\n".encode()


def events_since(mark: EventMark, published: PublishedDag) -> list[DagEvent]:
    """What a reader has to be told: a function of what it knows and of what is published."""
    found: list[DagEvent] = []
    id, tip, complete = published.id.hex(), published.tip, published.latest_complete
    if tip is not None and tip.cid.text != mark.tip:
        former, mark = mark.tip, replace(mark, tip=tip.cid.text)
        if former != _NOTHING and not _builds_on(published, tip, former):
            found.append(DagEvent("superseded", {"id": id, "cid": former, "tip": tip.cid.text}, mark))
        found.append(DagEvent("tip", {"id": id, "publish": _view(tip)}, mark))
    revoked = [one.cid.text for one in published.order if one.state is PublishState.REVOKED]
    digest = _digest(revoked)
    if digest != mark.revoked:
        mark = replace(mark, revoked=digest)
        found.append(DagEvent("revoked", {"id": id, "cids": revoked}, mark))
    now = _NOTHING if complete is None else complete.cid.text
    if now != mark.complete:
        mark = replace(mark, complete=now)
        found.append(DagEvent("complete", {"id": id, "publish": _view(complete)}, mark))
    return found


def _view(one: OrderedPublish | None) -> dict[str, Any] | None:
    view = publish_view(one)
    return None if view is None else view.model_dump()


def _digest(cids: list[str]) -> str:
    if not cids:
        return _NOTHING
    return hashlib.sha256("\n".join(sorted(cids)).encode()).hexdigest()[:_DIGEST_LETTERS]


def _builds_on(published: PublishedDag, tip: OrderedPublish, former: str) -> bool:
    """Whether a publish is an ancestor of the tip."""
    priors = {one.cid: one.prior for one in published.order}
    at = tip.prior
    while at is not None:
        if at.text == former:
            return True
        at = priors.get(at)
    return False


async def get_events(door: Door, request: Request) -> Response:
    """A stream of events of one id; `Last-Event-ID` goes on where another stream ended."""
    client = await door.enter(request)
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
        while True:
            try:
                async with asyncio.timeout(door.settings.heartbeat_s):
                    published = await source.after(published)
            except TimeoutError:
                # Access may have been taken away meanwhile.
                await door.access.require(client, SpaceAbility.READ, id)
                yield b": still here\n\n"
                continue
            for event in events_since(mark, published):
                mark = event.mark
                yield event.encode()
