"""A small device as a process: no windows, one request at a time, notifies only. It reports its memory.

    python -m culm_infra.demo.bamboo.device FOLDER URL KEY READINGS

It publishes its own readings, requests notifies of log 0 of KEY, and prints a line for each step.
"""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any, Final

from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.url import parse_url
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadSkipped, PiecesNotified
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Direction, Policy
from culm_models.bamboo_p2p.wire.messages import Eagerness
from culm_models.keys import KeyPair

DEVICE: Final = KeyPair.generate(b"the small device of the demo of Bamboo")
DATA_WINDOW_BYTES: Final = 1_024
PROFILE: Final = BambooPeerSettings(
    connection=BambooSettings(
        send_window=0, receive_window=0, credit=1, policy=Policy(eagerness=Eagerness.NOTIFY)
    ),
    data_window_bytes=DATA_WINDOW_BYTES,
    max_spool_bytes=65_536,
)
"""Settings of a device with little memory."""


async def run(folder: Path, url: str, public_key: bytes, readings: int) -> None:
    """Connect, print events, and stay until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    pieces: Counter[int] = Counter()

    def receive_event(_: RemotePeer, event: BambooP2pEvent) -> None:
        if isinstance(event, PiecesNotified):
            pieces[event.id] += event.pieces
            emit("notified", request=event.id, pieces=pieces[event.id])
        elif isinstance(event, PayloadSkipped):
            emit("skipped", request=event.id, reason=event.reason.name.lower())

    async with BambooPeer.open(folder, flavour=YAMF, settings=PROFILE) as peer:
        peer.listeners.append(receive_event)
        for number in range(readings):
            await peer.publish(DEVICE, 0, b'{"reading":%d}' % number)
        resident = _resident_bytes()
        tracemalloc.start()
        async with peer.connect(parse_url(url)) as remote:
            asked = await remote.propose(
                RequestedRange(public_key, 0, 1, eagerness=Eagerness.NOTIFY, direction=Direction.PULL)
            )
            emit("asked", request=asked)
            await stopped.wait()
            _, peak = tracemalloc.get_traced_memory()
            emit(
                "ended",
                peak_bytes=peak,
                resident_bytes=_resident_bytes() - resident,
                received_bytes=remote.session.received_bytes,
                error=None if remote.session.error is None else str(remote.session.error),
            )


def emit(event: str, **fields: Any) -> None:
    """Print one line for the demo."""
    print(json.dumps({"event": event, **fields}), flush=True)


def _resident_bytes() -> int:
    """Return the peak memory of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[3]), int(sys.argv[4])))
