"""Entries pass through open ranges one after the other, over TCP and over QUIC."""

from __future__ import annotations

import time
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.url import Scheme, Url
from culm_infra.demo.bamboo.stage import AUTHOR, BambooStage, author_log, reading
from culm_infra.demo.kit.report import SceneFigures, percentile
from culm_infra.stack.ports import HOST

_LOG_ID: Final = 60
_SCHEMES: Final[tuple[Scheme, ...]] = ("tcp", "quic")


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Publish each entry when both readers have the one before it."""
    log, count = author_log(_LOG_ID), stage.size.live_entries
    published_s: dict[int, float] = {}
    async with (
        stage.actor("live-source") as source,
        stage.actor("live-tcp") as by_tcp,
        stage.actor("live-quic") as by_quic,
        source.peer.listen(Url("tcp", HOST, 0)) as tcp,
        source.peer.listen(Url("quic", HOST, 0)) as quic,
    ):
        readers = (by_tcp, by_quic)
        for reader in readers:
            await reader.peer.follow(FollowedLog(log))
        async with by_tcp.peer.connect(tcp), by_quic.peer.connect(quic):
            await stage.until(
                lambda: source.counts["confirmed"] == len(readers), "both open ranges to be confirmed"
            )
            for number in range(1, count + 1):
                published_s[number] = time.monotonic()
                await source.peer.publish(AUTHOR, _LOG_ID, reading(number))
                for reader in readers:
                    await stage.until_event(
                        reader, ("payload", log, number), f"entry {number} at {reader.name}"
                    )
    figures.show("entries published, one after the other", count)
    for scheme, reader in zip(_SCHEMES, readers, strict=True):
        latencies_ms = [
            (reader.at_s["payload", log, number] - at_s) * 1_000 for number, at_s in published_s.items()
        ]
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            figures.show(
                f"from publishing to verified over {scheme}, {name}",
                percentile(latencies_ms, share) or 0.0,
                "ms",
            )
        figures.equal(f"verified over {scheme}, each once", reader.counts["payload"], count)
    figures.equal("requests for all of it", source.counts["proposed"], len(readers))
