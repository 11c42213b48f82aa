"""A large DAG from one folder to another over QUIC, against a bare stream of the same bytes."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import BenchSettings, Ratio, say
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.progress import SyncProgress
from culm_connectors.dag.settings import ALPN, DagPeerSettings
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.transport import Identity
from culm_connectors.transport.interface import Connection, SendStream
from culm_connectors.transport.quic import connect, serve
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import car_header, car_section
from culm_models.dag.sharding import appends_of

_CASE = "dag-transfer"
_GOAL = 0.3
SPACE = bytes(range(32))
_SHARD_BYTES = 4_194_304
_BLOCK_BYTES = 262_144
_WRITE_BYTES = 1_048_576
_LOCAL = ("127.0.0.1", 0)


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure a transfer with both ends in one process, then the bare stream."""
    total = (settings.size_mb or (16 if settings.quick else 1_000)) * 1_000_000
    return [asyncio.run(_throughput(total))]


async def _throughput(total: int) -> Ratio:
    with TemporaryDirectory() as name:
        async with (
            DagPeer.open(Path(name) / "giver") as giver,
            DagPeer.open(Path(name) / "taker") as taker,
        ):
            say(f"  putting {total // 1_000_000} MB")
            await giver.work(lambda folder: _fill(folder, total))
            memory = _Memory()
            async with giver.listen(_LOCAL) as address:
                started = time.perf_counter()
                progress = await taker.sync(address, [SPACE], on_progress=memory.record)
                seconds = time.perf_counter() - started
        ours = progress.received_bytes / seconds / 1e3
        memory.sample()
    bare = await _bare_rate(progress.received_bytes) / 1e3
    say(f"  {progress.received_bytes:,} bytes: {ours:,.0f} of {bare:,.0f} kB/s")
    say(f"  resident memory of both ends in MB, by tenths of the way: {memory.by_tenth(total)}")
    name = f"{total // 1_000_000} MB in shards of 4 MiB, every hash checked, on the disk"
    details = {"resident_mb_by_tenth": memory.by_tenth(total)}
    return Ratio(_CASE, name, ours, bare, "kB/s", "bare QUIC stream", _GOAL, details=details)


class _Memory:
    """The process's memory during a transfer, by tenths of its bytes."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, float]] = []
        self._received = 0
        self.sample()

    def record(self, progress: SyncProgress) -> None:
        """Take a sample after each further shard's worth of bytes."""
        if progress.received_bytes - self._received >= _SHARD_BYTES:
            self._received = progress.received_bytes
            self.sample()

    def sample(self) -> None:
        """Take a sample now."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self._samples.append((self._received, pages * resource.getpagesize() / 1e6))

    def by_tenth(self, total: int) -> list[int]:
        """Return the start's memory, then the maximum in each tenth, in MB."""
        maxima = [self._samples[0][1]] + [0.0] * 10
        for received, megabytes in self._samples[1:]:
            tenth = min(10, 1 + 10 * received // total)
            maxima[tenth] = max(maxima[tenth], megabytes)
        return [round(maximum) for maximum in maxima]


def _fill(folder: DagFolder, total: int) -> None:
    shards = []
    for cid, data in drawn_shards(total):
        folder.add_shard(SPACE, cid, data)
        shards.append(cid)
    nodes = appends_of(shards)
    folder.put_blocks(SPACE, [node.data for node in nodes], received_at=0)


def drawn_shards(total: int) -> Iterator[tuple[Cid, bytes]]:
    rng = random.Random(total)
    for _ in range(-(-total // _SHARD_BYTES)):
        blocks = [rng.randbytes(_BLOCK_BYTES - 64) for _ in range(_SHARD_BYTES // _BLOCK_BYTES)]
        cids = [cid_of(RAW, block) for block in blocks]
        data = car_header([]) + b"".join(map(car_section, cids, blocks))
        yield cid_of(CAR, data), data


async def _bare_rate(total: int) -> float:
    """Send the bytes of a transfer over a stream with the same settings, without processing them."""
    settings = DagPeerSettings().transport
    identities = [Identity.from_private_key(os.urandom(32)) for _ in range(2)]
    data = os.urandom(_WRITE_BYTES)

    async def on_connection(connection: Connection) -> None:
        stream = await connection.accept_stream()
        assert stream.send is not None, "it is bidirectional"
        left = total
        while left > 0:
            await stream.send.write(data[:left])
            left -= len(data)
        await stream.read(1)
        await connection.wait_closed()

    async def call(connection: Connection) -> None:
        stream = await connection.open_stream(bidirectional=True)
        await stream.write(b"\0")
        streams.append(stream)

    streams: list[SendStream] = []
    async with serve(_LOCAL, identities[0], settings, on_connection, alpn=ALPN) as listener:
        started = time.perf_counter()
        connection = await connect(
            listener.address, identities[1], None, settings, alpn=ALPN, speak_first=call
        )
        receive = streams[0].receive
        assert receive is not None, "it is bidirectional"
        left = total
        while left > 0:
            left -= len(await receive.read(_WRITE_BYTES))
        seconds = time.perf_counter() - started
        await connection.close()
    return total / seconds
