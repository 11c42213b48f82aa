"""A large payload resumes at the byte at which SIGKILL stopped it, while another log's entries flow."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.url import Url
from culm_infra.demo.bamboo.json_process import CULM, JsonProcess
from culm_infra.demo.bamboo.stage import AUTHOR, BambooActor, BambooStage, author_log, noise, reading
from culm_infra.demo.kit.report import SceneFigures, percentile
from culm_infra.stack.ports import HOST

_LARGE_ID: Final = 50
_SMALL_ID: Final = 51
_ALONE: Final = 20
_PACE_S: Final = 0.002
_ENTRY_BYTES: Final = 1_000
"""Upper bound for a small entry, including all messages about it."""


@dataclass(slots=True)
class _SmallEntries:
    """Entries of the other log, published one after the other, with their times of publication."""

    source: BambooActor
    published_s: dict[int, float] = field(default_factory=dict)

    async def publish(self) -> int:
        """Publish one more entry. Returns its number."""
        at_s = time.monotonic()
        stored = await self.source.peer.publish(AUTHOR, _SMALL_ID, reading(len(self.published_s)))
        self.published_s[stored.entry.seq_num] = at_s
        return stored.entry.seq_num

    async def keep_publishing(self) -> None:
        """Publish at a steady pace until cancelled."""
        while True:
            await self.publish()
            await asyncio.sleep(_PACE_S)

    def latencies_ms(self, process: JsonProcess) -> list[float]:
        """Return latencies of the entries that were sent during the transfer of the large payload.

        These are the entries that were published after the first one had arrived, and arrived before the
        large payload.
        """
        first_s: float | None = None
        latencies = []
        for at_s, line in process.lines:
            if _is_payload(line, _LARGE_ID):
                break
            if first_s is not None and self.published_s.get(line["seq_num"], 0.0) > first_s:
                latencies.append((at_s - self.published_s[line["seq_num"]]) * 1_000)
            first_s = first_s or at_s
        return latencies


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Let `culm bamboo serve --dial` read, and kill it when half of the payload has been sent."""
    size = stage.size.payload_mb * 1_000_000
    folder = stage.directory / "large-reader"
    await asyncio.to_thread(stage.write_log, "large-source", _LARGE_ID, [noise(size, _LARGE_ID)])
    async with stage.actor("large-source") as source, source.peer.listen(Url("tcp", HOST, 0)) as url:
        entries = _SmallEntries(source)
        publishing = asyncio.create_task(entries.keep_publishing())
        try:
            async with stage.process("the reader", _reader(url, folder), keeps=_is_kept) as first:
                await stage.until(
                    lambda: any(remote.session.sent_bytes >= size // 2 for remote in source.remotes),
                    "half of the payload to go out",
                )
                await first.kill()
            offset = _held_bytes(folder)
            figures.show("bytes of the payload", size)
            figures.at_most("on the reader's disk after kill -9", offset, size - 1, "bytes")
            figures.at_least("most of what had gone out", offset, max(1, size // 2 - 1_000_000), "bytes")
            async with stage.process("the reader", _reader(url, folder), keeps=_is_kept) as second:
                await stage.line(second, lambda line: _is_payload(line, _LARGE_ID), "the rest of the payload")
                sent = source.remotes[-1].session.sent_bytes
                rest = size - offset + _ENTRY_BYTES * len(entries.published_s)
                figures.at_most("bytes sent after that: the rest", sent, rest)
                publishing.cancel()
                alone_ms = [await _latency_ms(stage, second, entries) for _ in range(_ALONE)]
        finally:
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
        beside_ms = [*entries.latencies_ms(first), *entries.latencies_ms(second)]
        figures.at_least("entries of another log meanwhile", len(beside_ms), 5)
        figures.show("they took, p50", percentile(beside_ms, 0.5) or 0.0, "ms")
        figures.show("they took, at most", max(beside_ms, default=0.0), "ms")
        figures.show("without a large payload, p50", percentile(alone_ms, 0.5) or 0.0, "ms")


def _reader(url: Url, folder: Path) -> tuple[str, ...]:
    logs = (f"--log={AUTHOR.public_key.hex()}/{log_id}" for log_id in (_LARGE_ID, _SMALL_ID))
    return (
        *(*CULM, "bamboo", "serve", f"tcp://{HOST}:0", "--dial", str(url), "--dir", str(folder), "--json"),
        *logs,
    )


def _is_kept(line: dict[str, Any]) -> bool:
    return bool(line["event"] == "payload")


def _is_payload(line: dict[str, Any], log_id: int, seq_num: int | None = None) -> bool:
    is_its = line.get("log") == f"{AUTHOR.public_key.hex()}/{log_id}"
    return is_its and seq_num in (None, line["seq_num"])


def _held_bytes(folder: Path) -> int:
    store = FolderStore(folder)
    try:
        return store.unverified(author_log(_LARGE_ID), 1).end_of_run(0)
    finally:
        store.close()


async def _latency_ms(stage: BambooStage, process: JsonProcess, entries: _SmallEntries) -> float:
    seq_num = await entries.publish()
    what = f"entry {seq_num} of the small log"
    at_s, _ = await stage.line(process, lambda line: _is_payload(line, _SMALL_ID, seq_num), what)
    return (at_s - entries.published_s[seq_num]) * 1_000
