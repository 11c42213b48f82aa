"""Complementary parts of a range, and of one payload, cross in one request over QUIC."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.transport.url import Url
from culm_infra.demo.bamboo.logs import author_log, noise, signed, without_payload
from culm_infra.demo.bamboo.stage import BambooStage
from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.stack.ports import HOST
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction, PeerSettings

_LOG_ID: Final = 30
_ENTRIES: Final = 300
_LARGE_BYTES: Final = 1_000_000
GREEDY: Final = PeerSettings(sends_greedily=True, accepts_greedy=True)
"""Parts of a payload may go out, and may come, before anybody can verify them."""


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Each has every entry, the payloads of every other ten, and one half of the last payload."""
    log, half = author_log(_LOG_ID), _LARGE_BYTES // 2
    large = noise(_LARGE_BYTES, _LOG_ID)
    given = signed(_LOG_ID, [noise(600, number) for number in range(_ENTRIES)] + [large])
    last = len(given)
    mine = [one if number // 10 % 2 else without_payload(one) for number, one in enumerate(given[:-1])]
    yours = [without_payload(one) if number // 10 % 2 else one for number, one in enumerate(given[:-1])]
    mine.append(without_payload(given[-1], (half, large[half:])))
    yours.append(without_payload(given[-1], (0, large[:half])))
    settings = replace(BambooPeerSettings(), connection=GREEDY)
    async with (
        stage.actor("west", settings) as west,
        stage.actor("east", settings) as east,
        east.peer.listen(Url("quic", HOST, 0)) as url,
    ):
        await west.peer.add(mine)
        await east.peer.add(yours)
        for actor in (west, east):
            figures.show(f"{actor.name} begins with payloads", await actor.payloads(log))
        async with west.peer.connect(url) as remote:
            await remote.propose(RequestedRange(*log, 1, end=last, upper=last, direction=Direction.BOTH))

            async def is_through() -> bool:
                # West may be through with what it has sent, and east not yet with what it reads.
                ends = remote, *east.peer.remotes.values()
                return not any([await end.open_requests() for end in ends])

            await stage.until(is_through, "the one request to be freed")
            figures.equal("requests", west.counts["proposed"] + east.counts["proposed"], 1)
            for actor in (west, east):
                figures.equal(f"{actor.name} ends with payloads", await actor.payloads(log), last)
            figures.show("bytes of data from west to east", remote.session.sent_bytes)
            figures.show("bytes of data from east to west", remote.session.received_bytes)
            lacked = _ENTRIES * 600 + _LARGE_BYTES
            moved = remote.session.sent_bytes + remote.session.received_bytes
            figures.at_most("more than what was lacking", round(100 * moved / lacked) - 100, 15, "%")
