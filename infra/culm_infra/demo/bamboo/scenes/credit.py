"""A server accepts four requests at a time: further proposals wait, and continue when requests are freed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.url import Url
from culm_infra.demo.bamboo.stage import AUTHOR, BambooStage, author_log, reading, signed
from culm_infra.demo.kit.report import SceneFigures
from culm_infra.stack.ports import HOST
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Direction

_CREDIT: Final = 4
_LOG_IDS: Final = range(70, 102)
_ENTRIES: Final = 13
"""A number whose whole pool exists, so that a request for the log comes to its end."""


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Let four open ranges hold all the credit; when one ends, 28 further logs arrive through that credit."""
    logs = [author_log(log_id) for log_id in _LOG_IDS]
    open_logs, waiting = logs[:_CREDIT], logs[_CREDIT:]
    meagre = replace(BambooPeerSettings(), connection=BambooSettings(credit=_CREDIT))
    async with (
        stage.actor("meagre", meagre) as server,
        stage.actor("eager") as reader,
        server.peer.listen(Url("tcp", HOST, 0)) as url,
    ):
        for log_id in _LOG_IDS:
            await server.peer.add(signed(log_id, [reading(number) for number in range(_ENTRIES)]))
        counter = _OpenRequests()
        server.peer.listeners.append(counter.receive_event)
        async with reader.peer.connect(url) as remote:
            open_ids = [
                await remote.propose(RequestedRange(*log, 1, direction=Direction.PULL)) for log in open_logs
            ]
            asking = [
                asyncio.create_task(reader.peer.ask(remote, FollowedLog(log, 1, _ENTRIES))) for log in waiting
            ]
            try:
                # This entry arrives after everything that was sent before.
                await server.peer.publish(AUTHOR, open_logs[-1][1], b"behind all before it")
                latest = ("payload", open_logs[-1], _ENTRIES + 1)
                await stage.until_event(reader, latest, "an entry of an open range")
                figures.equal("requests that the server takes at a time", counter.most, _CREDIT)
                unsent = sum(not task.done() for task in asking)
                figures.equal("proposals that wait for credit", unsent, len(waiting))
                without_entries = await reader.peer.read(
                    lambda store: sum(not store.entries(log) for log in waiting)
                )
                figures.equal("of whose logs nothing has come", without_entries, len(waiting))
                if open_ids[0] is not None:
                    await remote.cancel(open_ids[0])
                await stage.stage.within(asyncio.gather(*asking), "the waiting proposals to be sent")

                async def all_have_come() -> bool:
                    return await reader.peer.read(
                        lambda store: all(store.payloads(log).covers(1, _ENTRIES + 1) for log in logs)
                    )

                await stage.until(all_have_come, "the logs of all proposals")
            finally:
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
        figures.equal("proposals sent once one range had ended", counter.proposed - _CREDIT, len(waiting))
        figures.at_most("requests open at a time, all along", counter.most, _CREDIT)


class _OpenRequests:
    """Counter of the server's open requests, with their maximum."""

    def __init__(self) -> None:
        self.proposed = self.freed = self.most = 0

    def receive_event(self, _: RemotePeer, event: BambooP2pEvent) -> None:
        """Count an event of the server."""
        self.proposed += event.kind == "proposed"
        self.freed += event.kind == "freed"
        self.most = max(self.most, self.proposed - self.freed)
