"""A device without windows, with one unit of credit and only notifies, and a peer that has everything."""

from __future__ import annotations

import signal
from typing import Final

from culm_infra.demo.bamboo.device import DEVICE
from culm_infra.demo.bamboo.json_process import Filter
from culm_infra.demo.bamboo.stage import AUTHOR, BambooStage, author_log, noise, signed
from culm_infra.demo.kit.report import SceneFigures
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction

_OFFERED_ID: Final = 90
_OFFERED_BYTES: Final = 5_000_000
_READINGS: Final = 3
_MOST_BYTES: Final = 512 * 1024


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Let the device send its readings, learn a long log's height, and receive an offer that it cannot
    hold.
    """
    readings, offered = (DEVICE.public_key, 0), author_log(_OFFERED_ID)
    entries = stage.size.entries
    folder = stage.directory / "device"
    async with stage.farm() as (farm, url):
        await farm.peer.add(signed(_OFFERED_ID, [noise(_OFFERED_BYTES, _OFFERED_ID)]))
        arguments = (
            *("-m", "culm_infra.demo.bamboo.device", str(folder), str(url)),
            *(AUTHOR.public_key.hex(), str(_READINGS)),
        )
        async with stage.process("the device", arguments) as device:
            _, asked = await stage.line(device, lambda line: line["event"] == "asked", "the device to ask")

            await stage.until(
                lambda: bool(farm.remotes) and farm.remotes[-1].is_set_up, "the device's connection"
            )
            remote = farm.remotes[-1]
            # There is one unit of credit: the second proposal waits until the first request is freed.
            await remote.propose(
                RequestedRange(*readings, 1, end=_READINGS, upper=_READINGS, direction=Direction.PULL)
            )
            await stage.until_event(farm, ("payload", readings, _READINGS), "the device's readings")
            offered_range = RequestedRange(*offered, 1, end=1, upper=1, direction=Direction.PUSH)
            offer = await remote.propose(offered_range)

            def is_about(kind: str, request: int | None, pieces: int) -> Filter:
                wanted = (kind, request)
                return lambda line: (
                    (line["event"], line.get("request")) == wanted and (line.get("pieces", 0) >= pieces)
                )

            notified = is_about("notified", asked["request"], 2 * entries)
            _, known = await stage.line(device, notified, "the long log's notifies")
            _, refused = await stage.line(
                device, is_about("skipped", offer, 0), "the offer to be passed over"
            )
            device.send_signal(signal.SIGTERM)
            _, ended = await stage.line(device, lambda line: line["event"] == "ended", "the device's figures")
    figures.equal("readings of the device that arrived", farm.counts["payload"], _READINGS)
    figures.equal("entries that the device knows of", known["pieces"] // 2, entries)
    figures.equal(f"a payload of {_OFFERED_BYTES:,} bytes, offered", refused["reason"], "too_large")
    figures.show("bytes of data that told it so", ended["received_bytes"])
    figures.at_most("memory that the connection took at most", ended["peak_bytes"], _MOST_BYTES, "bytes")
    figures.show("growth of the process at its largest", ended["resident_bytes"], "bytes")
    figures.demand("the connection stood until the end", holds=ended["error"] is None)
