"""Server-sent events: the overview, pushed to each browser."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from culm_infra.console.overview.snapshots import OverviewSnapshots


class OverviewEvents:
    """Streams each new snapshot of the overview. A browser that misses some gets only the latest one."""

    def __init__(self, snapshots: OverviewSnapshots) -> None:
        self._snapshots = snapshots

    async def stream(self, request: Request) -> Response:
        """Answer `GET /api/events`."""
        # Tells nginx and similar proxies not to buffer the events.
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def _events(self) -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        number = 0
        while (snapshot := await self._snapshots.after(number)) is not None:
            number = snapshot.number
            yield b"event: overview\nid: %d\ndata: %b\n\n" % (number, snapshot.document)
