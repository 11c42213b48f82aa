"""Two peers in one program: one puts a file as a DAG, the other fetches it over QUIC and reads it back.

Run it with Culm installed: python share_file.py FOLDER FILE
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.progress import SyncProgress
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.sharding import appends_of, cut_dag
from culm_models.dag.unixfs.files import read_file
from culm_models.dag.unixfs.importing import DEFAULT_PROFILE, PROFILES, import_bytes

SPACE = bytes(32)
"""The public key of the space that the DAG is in, under which it may be published."""


def put(folder: DagFolder, data: bytes) -> Cid:
    """Cut a file into blocks, these into shards, and append the shards. Returns the root."""
    blocks: dict[Cid, bytes] = {}
    root = import_bytes(data, PROFILES[DEFAULT_PROFILE], blocks.__setitem__).cid
    shards = []
    for shard in cut_dag(root, blocks.get):
        folder.add_shard(SPACE, shard.cid, shard.data)
        shards.append(shard.cid)
    nodes = appends_of(shards)
    folder.put_blocks(SPACE, [node.data for node in nodes], received_at=int(time.time()))
    return root


def say(progress: SyncProgress) -> None:
    """Print progress on one line."""
    print(f"\r{progress.shards} shards, {progress.received_bytes:,} bytes", end="", flush=True)


async def main(folder: Path, content: bytes) -> None:
    """Put, fetch, read, compare."""
    async with (
        DagPeer.open(folder / "giver") as giver,
        DagPeer.open(folder / "taker") as taker,
        giver.listen(("127.0.0.1", 0)) as address,
    ):
        root = await giver.work(lambda dags: put(dags, content))
        print(f"the file is {root}")
        await taker.sync(address, [SPACE], on_progress=say)
        data = await taker.work(lambda dags: b"".join(read_file(root, dags.block)))
        print(f"\nthe same bytes came: {data == content}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()))
