"""`python peer_process.py FOLDER SEED HOST PORT SPACE`: a peer that syncs, to be killed or measured.

It prints how many bytes of shards have come, and at last by how many bytes its memory has grown.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.progress import SyncProgress
from culm_connectors.transport import Identity


def say(progress: SyncProgress) -> None:
    print(progress.received_bytes, flush=True)


def largest_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


async def run(folder: str, seed: str, host: str, port: str, space: str) -> None:
    identity = Identity.from_private_key(bytes.fromhex(seed))
    async with DagPeer.open(Path(folder), identity=identity) as peer:
        before = largest_bytes()
        await peer.sync((host, int(port)), [bytes.fromhex(space)], on_progress=say)
        print(largest_bytes() - before, flush=True)


asyncio.run(run(*sys.argv[1:]))
