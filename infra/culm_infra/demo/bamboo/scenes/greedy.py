"""A relay passes a payload on before it can be verified; it was corrupted, so the relay apologises."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.transport.url import Url
from culm_infra.demo.bamboo.logs import author_log, noise, signed, without_payload
from culm_infra.demo.bamboo.scenes.both_ways import GREEDY
from culm_infra.demo.bamboo.stage import BambooStage
from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.stack.ports import HOST
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction

_LOG_ID: Final = 40
_ENTRIES: Final = 20
_CORRUPT: Final = 10
_SIZE: Final = 400_000
_PREFIX: Final = 250_000


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """The relay holds the beginning of one payload, one bit of it wrong; the rest comes from the origin."""
    log = author_log(_LOG_ID)
    given = signed(_LOG_ID, (noise(_SIZE, number) for number in range(_ENTRIES)))
    corrupt = given[_CORRUPT - 1]
    assert corrupt.payload is not None, "it was signed with it"
    beginning = bytearray(corrupt.payload[:_PREFIX])
    beginning[_PREFIX // 3] ^= 1
    at_relay = [*given]
    at_relay[_CORRUPT - 1] = without_payload(corrupt, (0, bytes(beginning)))
    settings = replace(BambooPeerSettings(), connection=GREEDY)
    async with (
        stage.actor("origin") as origin,
        stage.actor("relay", settings) as relay,
        stage.actor("greedy-reader", settings) as reader,
        origin.peer.listen(Url("tcp", HOST, 0)) as origin_url,
        relay.peer.listen(Url("tcp", HOST, 0)) as relay_url,
    ):
        await origin.peer.add(given)
        await relay.peer.add(at_relay)
        async with reader.peer.connect(relay_url) as downstream:
            # Mandatory: the relay may not pass over what it has lost, but waits until it has it.
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
