"""Readers of a long log: one proves two entries by their pools, one fetches payloads after the entries."""

from __future__ import annotations

from functools import partial
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.proof import Proof, prove
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_infra.demo.bamboo.stage import LONG_LOG, BambooStage, provable, reading
from culm_infra.demo.kit.report import SceneFigures
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import Eagerness


async def prove_two_entries(stage: BambooStage, figures: SceneFigures) -> None:
    """Send three requests: for the height, for an entry in the middle of the log, and for the newest
    entry.
    """
    height = stage.size.entries
    middle = provable(height) * 6 // 7
    async with (
        stage.farm() as (_, url),
        stage.actor("sparse-reader") as reader,
        reader.peer.connect(url) as remote,
    ):

        async def is_idle() -> bool:
            return await remote.open_requests() == 0

        whole = RequestedRange(*LONG_LOG, 1, eagerness=Eagerness.NOTIFY, direction=Direction.PULL)
        asked = await remote.propose(whole)

        await stage.until(lambda: reader.pieces >= 2 * height, "the notifies of the whole log")
        figures.equal("the log's height, learnt by notify", reader.pieces // 2, height, "entries")
        figures.show("bytes of data for that", remote.session.received_bytes)
        if asked is not None:
            await remote.cancel(asked)
        await stage.until(is_idle, "the notify-only request to be freed")

        expected: set[int] = set()
        for seq_num, what in ((middle, f"entry {middle:,}"), (height, f"the newest entry, {height:,}")):
            pool = {number for number in (*lower_pool(seq_num), *upper_pool(seq_num)) if number <= height}
            entries, before = reader.counts["entry"], remote.session.received_bytes
            await reader.peer.ask(remote, FollowedLog(LONG_LOG, seq_num, seq_num))

            async def has_come(wanted: set[int] = pool, payload: int = seq_num) -> bool:
                return await reader.peer.read(
                    lambda store: (
                        store.has_payload(LONG_LOG, payload)
                        and all(store.entry(LONG_LOG, number) is not None for number in wanted)
                    )
                )

            await stage.until(has_come, f"{what} and its pool")
            proof = await reader.peer.read(partial(_proof, seq_num))
            figures.equal(f"{what}: entries of its pool", len(proof.pool), len(pool))
            figures.equal("of them newly received", reader.counts["entry"] - entries, len(pool - expected))
            figures.show("bytes of data, with the payload", remote.session.received_bytes - before)
            figures.demand("proven: all signatures and links", holds=proof.is_proven)
            expected |= pool
        received = await reader.peer.read(lambda store: set(store.held_between(LONG_LOG, 1, height)))
        figures.equal("entries held in the end: the two pools", len(received), len(expected))
        figures.demand("and no others", holds=received == expected)


def _proof(seq_num: int, store: FolderStore) -> Proof:
    return prove(store, LONG_LOG, seq_num)


_LENGTH: Final = 200


async def fetch_deferred_payloads(stage: BambooStage, figures: SceneFigures) -> None:
    """Fetch a range with a threshold of 0 bytes first, then the payloads of its second half."""
    end = provable(stage.size.entries) * 3 // 4
    start = max(1, end - _LENGTH + 1)
    first = (start + end + 1) // 2
    async with (
        stage.farm() as (_, url),
        stage.actor("backfill-reader") as reader,
        reader.peer.connect(url) as remote,
    ):
        bare = FollowedLog(LONG_LOG, start, end, eagerness=Eagerness.THRESHOLD, threshold=0)
        await reader.peer.ask(remote, bare)

        async def is_idle() -> bool:
            return await remote.open_requests() == 0

        await stage.until(
            lambda: reader.peer.read(lambda store: store.entries(LONG_LOG).covers(start, end + 1)),
            "the entries of the range",
        )
        await stage.until(is_idle, "the request for the entries to be freed")
        payloads = await reader.peer.read(lambda store: list(store.payloads(LONG_LOG)))
        figures.show(f"entries {start:,} to {end:,} and what proves them", reader.counts["entry"], "entries")
        figures.equal("payloads that came with them", len(payloads), 0)

        entries, before = reader.counts["entry"], remote.session.received_bytes
        await reader.peer.ask(remote, FollowedLog(LONG_LOG, first, end, payload_only=True))

        await stage.until(lambda: reader.holds_payloads(LONG_LOG, first, end), "the payloads of the range")
        await stage.until(is_idle, "the request for the payloads to be freed")
        sizes = sum(len(reading(number)) for number in range(first, end + 1))
        ranges = await reader.peer.read(lambda store: list(store.payloads(LONG_LOG)))
        figures.demand(f"then payloads {first:,} to {end:,} alone", holds=ranges == [(first, end + 1)])
        figures.equal("entries that came with them", reader.counts["entry"] - entries, 0)
        figures.show("bytes of these payloads", sizes)
        figures.at_most("bytes of data for them", remote.session.received_bytes - before, sizes)
