"""Bodies of requests, bounded as they are read: what a header says of their length is not believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from culm_connectors.dag.http.client_budgets import ClientBudgets, HttpClient
from culm_connectors.dag.http.problems import BodyTooLarge, BodyTooSlow, RequestMalformed
from culm_connectors.dag.http.settings import DagHttpSettings


async def read_body(
    request: Request, most: int, client: HttpClient, budgets: ClientBudgets, settings: DagHttpSettings
) -> bytes:
    """All of a body of at most so many bytes; never longer in memory. Errors: `RequestError`."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RequestMalformed("bodies are taken as they are: no Content-Encoding")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > most:
        raise BodyTooLarge(f"a body over {most} bytes")
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + settings.body_grace_s
    pieces: list[bytes] = []
    size = 0
    stream: AsyncIterator[bytes] = request.stream()
    try:
        while True:
            async with asyncio.timeout_at(deadline_s):
                piece = await anext(stream, None)
            if piece is None:
                break
            size += len(piece)
            if size > most:
                raise BodyTooLarge(f"a body over {most} bytes")
            pieces.append(piece)
            before_s = loop.time()
            await budgets.take_bytes(client, len(piece))
            # Time in which we did not read is not the client's.
            deadline_s += len(piece) / settings.body_bytes_per_second + loop.time() - before_s
    except TimeoutError:
        raise BodyTooSlow("the body does not come") from None
    except ClientDisconnect:
        raise RequestMalformed("the body was cut off") from None
    return b"".join(pieces)
