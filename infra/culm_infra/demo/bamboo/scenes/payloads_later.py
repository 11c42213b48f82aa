"""Payload-only backfill: a reader holds the entries of a range, and fetches their payloads alone."""

from __future__ import annotations

from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_infra.demo.bamboo.logs import LONG_LOG, provable, reading
from culm_infra.demo.bamboo.stage import BambooStage
from culm_infra.demo.kit.figures import SceneFigures
from culm_models.bamboo_p2p.wire.messages import Eagerness

_LENGTH: Final = 200


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """First a range with a threshold of 0 bytes, then the payloads of its second half."""
    end = provable(stage.size.entries) * 3 // 4
    start = max(1, end - _LENGTH + 1)
    first = (start + end + 1) // 2
    async with (
        stage.farm() as (_, url),
        stage.actor("backfill-reader") as reader,
        reader.peer.connect(url) as remote,
    ):
        bare = FollowedLog(LONG_LOG, start, end, eagerness=Eagerness.THRESHOLD, threshold=0)
        await reader.peer.ask(remote, bare)

        async def is_idle() -> bool:
            return await remote.open_requests() == 0

        await stage.until(
            lambda: reader.peer.read(lambda store: store.entries(LONG_LOG).covers(start, end + 1)),
            "the entries of the range",
        )
        await stage.until(is_idle, "the request for the entries to be freed")
        payloads = await reader.peer.read(lambda store: list(store.payloads(LONG_LOG)))
        figures.show(f"entries {start:,} to {end:,} and what proves them", reader.counts["entry"], "entries")
        figures.equal("payloads that came with them", len(payloads), 0)

        entries, before = reader.counts["entry"], remote.session.received_bytes
        await reader.peer.ask(remote, FollowedLog(LONG_LOG, first, end, payload_only=True))

        await stage.until(lambda: reader.holds_payloads(LONG_LOG, first, end), "the payloads of the range")
        await stage.until(is_idle, "the request for the payloads to be freed")
        sizes = sum(len(reading(number)) for number in range(first, end + 1))
        held = await reader.peer.read(lambda store: list(store.payloads(LONG_LOG)))
        figures.demand(f"then payloads {first:,} to {end:,} alone", holds=held == [(first, end + 1)])
        figures.equal("entries that came with them", reader.counts["entry"] - entries, 0)
        figures.show("bytes of these payloads", sizes)
        figures.at_most("bytes of data for them", remote.session.received_bytes - before, sizes)
