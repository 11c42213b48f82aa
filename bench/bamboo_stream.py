"""Bamboo peers with folders against a bare stream of the same bytes; live entries against p2panda's."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bamboo_material import AUTHOR, LOG, made_log
from bench.harness import BenchSettings, Ratio, middle_pair, say
from bench.latency import LivePair
from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.dial import dial, listening
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.transport import Identity
from culm_connectors.url import Scheme, Url
from culm_infra.demo.p2panda.plan import SCHEMAS
from culm_models.bamboo.hashes import YASMF
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadVerified
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bymux import CONTROL, DATA
from culm_models.keys import KeyPair

_CASE = "bamboo-stream"
_GOAL = 0.5
_TURN_BYTES = 65_536
_SIZES = (4_096, 65_536, 1_048_576)
_TIMEOUT_S = 120.0
_LIVE_BYTES = 100
_PAUSE_S = 0.01
"""The same pause as in `LivePair`."""
_SETUP = bytes(3)
"""First bytes of either end: nothing wanted, no windows."""


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure both ends in one process, over QUIC and over TCP with bymux, alternating with the bare stream.

    The processor time is recorded, too: on a busy machine it is more reliable, as two ends use more than one
    core.
    """
    total, rounds, blocks, block = (4_000_000, 1, 2, 10) if settings.quick else (40_000_000, 3, 10, 30)
    ratios: list[Ratio] = []
    schemes: tuple[Scheme, ...] = ("quic", "tcp")
    for scheme in schemes:
        ratios += [asyncio.run(_throughput(scheme, size, max(total // size, 2), rounds)) for size in _SIZES]
    return [*ratios, *asyncio.run(_live(blocks, block))]


async def _throughput(scheme: Scheme, size: int, count: int, rounds: int) -> Ratio:
    log = made_log(count, size)
    ours: list[float] = []
    bare: list[float] = []
    cpu_us: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        with TemporaryDirectory() as name:
            async with _two_peers(Path(name), scheme) as (giver, taker, remote):
                await giver.read(lambda store: store.put_verified(LOG, log))
                whole = asyncio.Event()

                def heard(_: RemotePeer, event: BambooP2pEvent, whole: asyncio.Event = whole) -> None:
                    if isinstance(event, PayloadVerified) and event.seq_num == count:
                        whole.set()

                taker.listeners.append(heard)
                started, started_cpu = time.perf_counter(), time.process_time()
                await remote.propose(RequestedRange(*LOG, 1, end=count, direction=Direction.PULL))
                async with asyncio.timeout(_TIMEOUT_S):
                    await whole.wait()
                seconds = time.perf_counter() - started
                cpu_us["ours"].append(1e6 * (time.process_time() - started_cpu) / count)
                sent = remote.session.received_bytes
        ours.append(sent / seconds / 1e3)
        started_cpu = time.process_time()
        bare.append(await _bare_rate(scheme, sent) / 1e3)
        cpu_us["bare"].append(1e6 * (time.process_time() - started_cpu) / count)
        say(
            f"  {scheme}, {size:,} bytes: {ours[-1]:,.0f} of {bare[-1]:,.0f} kB/s, an entry takes "
            f"{cpu_us['ours'][-1]:,.0f} and {cpu_us['bare'][-1]:,.0f} µs of processor time"
        )
    goal = _GOAL if scheme == "quic" else None
    name = f"{scheme}, payloads of {size // 1024} KiB, verified and stored"
    details = {"count": count, "cpu_us_an_entry": cpu_us}
    return Ratio(_CASE, name, *middle_pair(ours, bare), "kB/s", "bare stream", goal, details=details)


async def _bare_rate(scheme: Scheme, total: int) -> float:
    """Carry the bytes of a transfer over the same channels without processing them."""
    data = os.urandom(_TURN_BYTES)
    async with _two_channels(scheme) as (sender, receiver):

        async def send() -> None:
            for _ in range(-(-total // len(data))):
                await sender.capacity(DATA)
                await sender.write(DATA, data)

        started = time.perf_counter()
        sending = asyncio.create_task(send())
        left = -(-total // len(data)) * len(data)
        size = left
        while left > 0:
            left -= len(await receiver.read(DATA))
        await sending
        return size / (time.perf_counter() - started)


async def _live(blocks: int, block: int) -> list[Ratio]:
    """Measure from publishing an entry to its storage at the other end, alternating with p2panda's peers."""
    taken: dict[str, list[float]] = {"quic": [], "tcp": [], "p2panda": []}
    async with AsyncExitStack() as stack:
        once = {
            "quic": await stack.enter_async_context(_live_bamboo("quic")),
            "tcp": await stack.enter_async_context(_live_bamboo("tcp")),
            "p2panda": await stack.enter_async_context(_live_p2panda()),
        }
        for number in range(-1, blocks):
            for name, publish in once.items():
                times = [await publish() for _ in range(block)]
                # The first block warms up.
                taken[name] += times if number >= 0 else []
    middle = {name: 1e6 * statistics.median(times) for name, times in taken.items()}
    return [
        Ratio(
            _CASE,
            f"{scheme}, live entry, p50 from publishing to being stored",
            middle[scheme],
            middle["p2panda"],
            "µs",
            "p2panda's over QUIC",
            None,
            higher_is_better=False,
        )
        for scheme in ("quic", "tcp")
    ]


@asynccontextmanager
async def _live_bamboo(scheme: Scheme) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Yield a function that publishes an entry over an open range and returns the seconds until its
    storage.
    """
    arrived: asyncio.Queue[float] = asyncio.Queue()

    def heard(_: RemotePeer, event: BambooP2pEvent) -> None:
        if isinstance(event, PayloadVerified):
            arrived.put_nowait(time.perf_counter())

    with TemporaryDirectory() as name:
        async with _two_peers(Path(name), scheme) as (giver, taker, remote):
            taker.listeners.append(heard)
            await remote.propose(RequestedRange(*LOG, 1, direction=Direction.PULL))

            async def once() -> float:
                await asyncio.sleep(_PAUSE_S)
                started = time.perf_counter()
                await giver.publish(AUTHOR, LOG[1], os.urandom(_LIVE_BYTES))
                async with asyncio.timeout(_TIMEOUT_S):
                    return await arrived.get() - started

            yield once


@asynccontextmanager
async def _live_p2panda() -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Yield that function for two reference peers in live mode. Neither kind syncs an entry to disk."""
    with TemporaryDirectory() as name:
        writer, reader = (
            ReferencePeer(
                Path(name) / role,
                key_pair=KeyPair.from_private_key(os.urandom(32)),
                schemas=SCHEMAS[:1],
                durable=False,
            )
            for role in ("writer", "reader")
        )
        async with writer, reader, reader.serve() as listener:
            writer.dial(listener.address)
            pair = LivePair(writer, reader)
            await pair.settle()
            yield pair.once


@asynccontextmanager
async def _two_peers(
    folder: Path, scheme: Scheme
) -> AsyncIterator[tuple[BambooPeer, BambooPeer, RemotePeer]]:
    async with (
        BambooPeer.open(folder / "giver", flavour=YASMF) as giver,
        BambooPeer.open(folder / "taker", flavour=YASMF) as taker,
        giver.listen(Url(scheme, "127.0.0.1", 0)) as url,
        taker.connect(url) as remote,
    ):
        yield giver, taker, remote


@asynccontextmanager
async def _two_channels(scheme: Scheme) -> AsyncIterator[tuple[TwoChannels, TwoChannels]]:
    """Yield the bare channels of a connection: the caller's, and the listener's."""
    settings = BambooPeerSettings()
    called: asyncio.Future[TwoChannels] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def on_channels(channels: TwoChannels) -> None:
        await channels.write(CONTROL, _SETUP)
        called.set_result(channels)
        await over.wait()
        await channels.close(None)

    identities = [Identity.from_private_key(os.urandom(32)) for _ in range(2)]
    async with listening(Url(scheme, "127.0.0.1", 0), YASMF, identities[0], settings, on_channels) as url:
        calling = await dial(url, YASMF, identities[1], settings)
        await calling.write(CONTROL, _SETUP)
        yield calling, await called
        over.set()
        await calling.close(None)
