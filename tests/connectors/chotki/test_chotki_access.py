"""Who may be spoken with, by the allow-list: whoever calls, and whom the edge calls itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.memory import memory_pair
from culm_connectors.transport.principal import Principal
from tests.support.chotki_edge import edge_shared
from tests.support.waiting import until, while_working


class Rules:
    """Everybody is allowed until somebody is not."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def judge(self, principal: Principal) -> Refusal | None:
        return Refusal("not on the allow-list") if principal.name in self.refused else None


async def test_a_session_is_ended_when_its_peer_is_allowed_no_longer_and_not_begun_again(
    tmp_path: Path,
) -> None:
    rules = Rules()
    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), rules.judge)
    with edge_shared(tmp_path, report=driver.reports.event) as shared:
        driver.begin(shared)
        near, _ = memory_pair(4_096)
        task = asyncio.create_task(driver.serve(near))
        await until(lambda: driver.connections)
        driver.judge_again()
        assert near.close_reason is None
        rules.refused.add(near.principal.name)
        driver.judge_again()
        async with while_working():
            await task
        assert near.close_reason is not None and not driver.connections
        again, _ = memory_pair(4_096)
        async with while_working():
            await driver.serve(again)
        assert again.close_reason is not None and not driver.connections
