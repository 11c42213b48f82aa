"""Folder of a reference peer, and shared parts of its commands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from culm_infra.cli.kit.data_folder import data_folder, make_data_folder
from culm_infra.cli.kit.output import Results, safe, say
from culm_infra.patience import interrupted
from culm_models.p2panda.operations.operation import CheckedOperation, peek

if TYPE_CHECKING:
    from culm_connectors.logs.index import LmdbLogStore
    from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
    from culm_connectors.p2panda.reference_peer.sync_progress import EntryReport, SyncSummary
    from culm_infra.settings import CulmSettings

Result = TypeVar("Result")


def log_rows(store: LmdbLogStore) -> list[dict[str, Any]]:
    """Return a row for every log of the store."""
    rows = []
    for public_key, log_id, height in store.log_heights(store.schema_ids()):
        info = store.log_info(public_key, log_id)
        assert info is not None, "a log with a height is known"
        rows.append(
            {
                "public_key": public_key,
                "log_id": log_id,
                "height": height,
                "document_id": info.document_id,
                "schema_id": info.schema_id,
            }
        )
    return rows


def entry_row(checked: CheckedOperation) -> dict[str, Any]:
    """Return a row for an entry."""
    entry = checked.entry
    return {
        "operation_id": checked.hash,
        "action": checked.facts.action,
        "schema_id": checked.schema_id,
        "public_key": entry.public_key,
        "log_id": entry.log_id,
        "seq_num": entry.seq_num,
    }


def print_summary(summary: SyncSummary, results: Results) -> None:
    """Print the result of a synchronisation."""
    results.one(
        asdict(summary) | {"duration_s": round(summary.duration_s, 3)},
        f"received {summary.entries_received} entries, sent {summary.entries_sent}, "
        f"in {summary.duration_s:.1f} s, with {summary.remote.hex()}",
    )
    if results.json:
        return
    if summary.rounds:
        say(
            f"set reconciliation: {summary.differing_logs} logs differed, found in {summary.rounds} rounds "
            f"with {summary.reconciliation_bytes} bytes"
        )
    _say_reports(summary.entries_rejected, "entries of the remote were refused", summary.refused)
    _say_reports(
        summary.logs_withheld, "logs were not sent from the entry on that is named", summary.undelivered
    )
    if summary.not_served:
        count, first = len(summary.not_served), safe(summary.not_served[0])
        say(f"{count} of our schemas not served there, or not yet (`--timeout` waits): {first}")
    if not summary.schema_ids:
        say("there is no schema that both announce")


def _say_reports(count: int, what: str, reports: Sequence[EntryReport]) -> None:
    if count:
        say(f"{count} {what}:")
        for report in reports:
            author = report.public_key.hex() if report.public_key is not None else "not an entry"
            say(f"  {safe(report.code)}  {author}  log {report.log_id}  entry {report.seq_num}")
        if count > len(reports):
            say(f"  and {count - len(reports)} more")


async def serve_until_interrupted(task: asyncio.Task[None] | None = None) -> None:
    """Wait for an interrupt, then cancel `task`."""
    await interrupted().wait()
    if task is not None:
        task.cancel()
        await asyncio.wait({task})


async def with_peer(
    directory: Path | None,
    work: Callable[[ReferencePeer], Awaitable[Result]],
    *,
    live_mode: bool = True,
    schemas: list[str] | None = None,
    datagram_size: str | None = None,
    sessions: dict[str, Any] | None = None,
    make: bool = False,
) -> Result:
    """Open the peer, run `work` with it, close it.

    Without `schemas` the peer announces the schemas that it holds; if it holds none, all that others
    announce.
    """
    from culm_connectors.edge.keyfile import load_or_make_key
    from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
    from culm_connectors.transport import TransportSettings

    settings = _loaded(directory, datagram_size, sessions)
    home = _folder_of(settings)
    if make:
        load_or_make_key(make_data_folder("peer", home))
    async with ReferencePeer(
        home,
        schemas=schemas or None,
        live_mode=live_mode,
        transport=TransportSettings(datagram_bytes=settings.peer.datagram_size),
        driver=settings.peer.driver,
        sessions=settings.peer.sessions,
    ) as peer:
        return await work(peer)


def _loaded(
    directory: Path | None, datagram_size: str | None = None, sessions: dict[str, Any] | None = None
) -> CulmSettings:
    from culm_infra.settings import load

    return load(peer={"directory": directory, "datagram_size": datagram_size, "sessions": sessions or {}})


def folder(directory: Path | None) -> Path:
    """Return the peer's folder."""
    return _folder_of(_loaded(directory))


def peer_id_of(directory: Path | None) -> bytes:
    """Return the id of the peer in this folder. Raises `KeyFileError`."""
    from culm_connectors.p2panda.reference_peer.peer import peer_key

    return peer_key(folder(directory)).public_key


def _folder_of(settings: CulmSettings) -> Path:
    return data_folder("peer", settings.peer.directory)


def store(directory: Path | None) -> contextlib.closing[LmdbLogStore]:
    """Return the peer's store, to be closed by `with`."""
    from culm_connectors.logs.index import LmdbLogStore
    from culm_connectors.p2panda.reference_peer.peer import STORE_FOLDER

    return contextlib.closing(LmdbLogStore(peek, folder(directory) / STORE_FOLDER, durable=True))
