"""Unverified parts of payloads: two halves that cross in one request, and a corrupted beginning."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.url import Url
from culm_infra.demo.bamboo.stage import BambooStage, author_log, noise, signed, without_payload
from culm_infra.demo.kit.report import SceneFigures
from culm_infra.stack.ports import HOST
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Direction

_BOTH_ID: Final = 30
_BOTH_ENTRIES: Final = 300
_LARGE_BYTES: Final = 1_000_000
GREEDY: Final = BambooSettings(sends_greedily=True, accepts_greedy=True)
"""Parts of a payload may be sent and received before they can be verified."""


async def fill_gaps(stage: BambooStage, figures: SceneFigures) -> None:
    """Give each peer every entry, alternating tens of payloads, and one half of the last payload."""
    log, half = author_log(_BOTH_ID), _LARGE_BYTES // 2
    large = noise(_LARGE_BYTES, _BOTH_ID)
    entries = signed(_BOTH_ID, [noise(600, number) for number in range(_BOTH_ENTRIES)] + [large])
    last = len(entries)
    mine = [
        entry if number // 10 % 2 else without_payload(entry) for number, entry in enumerate(entries[:-1])
    ]
    yours = [
        without_payload(entry) if number // 10 % 2 else entry for number, entry in enumerate(entries[:-1])
    ]
    mine.append(without_payload(entries[-1], (half, large[half:])))
    yours.append(without_payload(entries[-1], (0, large[:half])))
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
                # West may have sent everything before east has read it.
                ends = remote, *east.peer.remotes.values()
                return not any([await end.open_requests() for end in ends])

            await stage.until(is_through, "the one request to be freed")
            figures.equal("requests", west.counts["proposed"] + east.counts["proposed"], 1)
            for actor in (west, east):
                figures.equal(f"{actor.name} ends with payloads", await actor.payloads(log), last)
            figures.show("bytes of data from west to east", remote.session.sent_bytes)
            figures.show("bytes of data from east to west", remote.session.received_bytes)
            lacked = _BOTH_ENTRIES * 600 + _LARGE_BYTES
            moved = remote.session.sent_bytes + remote.session.received_bytes
            figures.at_most("more than what was lacking", round(100 * moved / lacked) - 100, 15, "%")


_LOG_ID: Final = 40
_ENTRIES: Final = 20
_CORRUPT: Final = 10
_SIZE: Final = 400_000
_PREFIX: Final = 250_000


async def pass_on(stage: BambooStage, figures: SceneFigures) -> None:
    """Give the relay the beginning of one payload with a wrong bit; the rest comes from the origin."""
    log = author_log(_LOG_ID)
    entries = signed(_LOG_ID, (noise(_SIZE, number) for number in range(_ENTRIES)))
    corrupt = entries[_CORRUPT - 1]
    assert corrupt.payload is not None, "it was signed with it"
    beginning = bytearray(corrupt.payload[:_PREFIX])
    beginning[_PREFIX // 3] ^= 1
    at_relay = [*entries]
    at_relay[_CORRUPT - 1] = without_payload(corrupt, (0, bytes(beginning)))
    settings = replace(BambooPeerSettings(), connection=GREEDY)
    async with (
        stage.actor("origin") as origin,
        stage.actor("relay", settings) as relay,
        stage.actor("greedy-reader", settings) as reader,
        origin.peer.listen(Url("tcp", HOST, 0)) as origin_url,
        relay.peer.listen(Url("tcp", HOST, 0)) as relay_url,
    ):
        await origin.peer.add(entries)
        await relay.peer.add(at_relay)
        async with reader.peer.connect(relay_url) as downstream:
            # Mandatory: the relay may not skip the payload that it lost, but waits until it has it.
            await downstream.propose(RequestedRange(*log, 1, mandatory=True, direction=Direction.PULL))

            async def has_the_beginning() -> bool:
                return await reader.peer.read(
                    lambda store: store.unverified(log, _CORRUPT).end_of_run(0) >= _PREFIX
                )

            await stage.until(has_the_beginning, "the unverified beginning to be passed on")
            passed_on = await reader.peer.read(lambda store: store.unverified(log, _CORRUPT).end_of_run(0))
            figures.equal("bytes passed on that nobody had verified", passed_on, _PREFIX)
            async with relay.peer.connect(origin_url) as upstream:
                await relay.peer.ask(upstream, FollowedLog(log))

                await stage.until(
                    lambda: reader.holds_payloads(log, 1, _ENTRIES), "all payloads, the corrupted one too"
                )
                figures.equal("apologies to the reader", reader.counts["apology"], 1)
                right = await reader.peer.read(lambda store: store.read_payload(log, _CORRUPT, 0, _SIZE))
                figures.demand("the payload in the end is the author's", holds=right == corrupt.payload)
                figures.equal("payloads verified at the reader", reader.counts["payload"], _ENTRIES)
                figures.demand(
                    "nobody was blamed: both connections stand",
                    holds=upstream.session.error is None
                    and downstream.session.error is None
                    and not downstream.ended.is_set()
                    and not upstream.ended.is_set(),
                )
                figures.show("bytes of data to the reader", downstream.session.received_bytes)
