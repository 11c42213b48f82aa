"""Two peers in one program: one publishes a log, the other follows it over TCP and prints its entries.

Run it with Culm installed: python live_log.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.url import parse_url
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadVerified


def payload_of(store: FolderStore, event: PayloadVerified) -> bytes:
    """Return the first bytes of an event's payload."""
    return store.read_payload(event.log, event.seq_num, 0, 1_000)


async def main(folder: Path) -> None:
    """Publish three entries, follow them, and publish another one live."""
    author = load_or_make_key(folder / "author")
    came: asyncio.Queue[PayloadVerified] = asyncio.Queue()

    def on_event(_: RemotePeer, event: BambooP2pEvent) -> None:
        if isinstance(event, PayloadVerified):
            came.put_nowait(event)

    async with (
        BambooPeer.open(folder / "author", flavour=YAMF) as one,
        BambooPeer.open(folder / "reader", flavour=YAMF) as other,
        one.listen(parse_url("tcp://127.0.0.1:0")) as address,
    ):
        for text in ("first", "second", "third"):
            await one.publish(author, 0, text.encode())
        other.listeners.append(on_event)
        await other.follow(FollowedLog((author.public_key, 0)))
        calling = asyncio.create_task(other.keep_connected(address))
        last = await one.publish(author, 0, b"live", end_of_log=True)
        seq_num = 0
        while seq_num < last.entry.seq_num:
            event = await came.get()
            seq_num = event.seq_num
            payload = await other.read(partial(payload_of, event=event))
            print(f"entry {seq_num}: {payload.decode()}")
        calling.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
