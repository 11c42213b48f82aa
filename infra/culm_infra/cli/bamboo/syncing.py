"""One connection of ``culm bamboo sync``: request, count what arrives, report what would arrive."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from culm_connectors.bamboo_p2p.interest import FollowedLog, NotifiedTotals, count_notified
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.policy.enforcement import log_name
from culm_connectors.bamboo_p2p.session import Trace, no_trace
from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.transport import Identity
from culm_infra.cli.bamboo.folder import chosen_logs
from culm_infra.cli.kit.output import emit_json, err, progress
from culm_infra.cli.kit.reaching import announced, limit_text, when_it_answers
from culm_infra.errors import InfraError
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import Eagerness

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
    from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
    from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
    from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
    from culm_connectors.url import Url

_LOOK_S = 0.1
_TOTALS_S = 0.5
"""Seconds between two counts of the totals."""

Interest = Callable[["LogKey"], FollowedLog]


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Plan of one sync. `idle_s` None: stay connected. `emits_progress`: print a line of JSON at each
    count.
    """

    folder: Path
    flavour: HashFlavour | None
    settings: BambooPeerSettings
    policy: FolderPolicy | None
    url: Url
    names: list[str] | None
    interest: Interest
    idle_s: float | None
    timeout_s: float | None = None
    """Seconds without an answer after which the sync fails; None: the first failure ends it."""
    is_restricted: bool = False
    """Whether the command line restricts what is requested of a log, beyond naming logs."""
    trace: Trace = no_trace
    is_dry: bool = False
    with_sizes: bool = False
    emits_progress: bool = False
    report: Callable[[RemotePeer, BambooP2pEvent], None] | None = None
    """Called with each event as it happens."""

    @property
    def shows_progress(self) -> bool:
        """Whether to request the totals, which costs the peer some work."""
        return self.emits_progress or err.is_terminal


@dataclass(slots=True)
class SyncCounts:
    """Events of a sync, counted by kind, and the totals of the other end's notifications."""

    counts: Counter[str] = field(default_factory=Counter)
    cancelled: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    """Pieces that the other end has notified without sending them."""
    notified: dict[LogKey, NotifiedTotals] = field(default_factory=dict)
    probes: list[tuple[Request, FollowedLog]] = field(default_factory=list)
    is_cut_short: bool = False

    def receive_event(self, _: RemotePeer, event: BambooP2pEvent) -> None:
        """Count an event."""
        self.counts[event.kind] += 1
        self.pieces += getattr(event, "pieces", 0)
        if event.kind == "cancelled":
            self.cancelled[event.code.name.lower()] += 1  # type: ignore[attr-defined]

    @property
    def totals(self) -> NotifiedTotals:
        """Sum of the totals of all logs."""
        total = NotifiedTotals()
        for of_log in self.notified.values():
            total.entries += of_log.entries
            total.payloads += of_log.payloads
            total.new_entries += of_log.new_entries
            total.new_payloads += of_log.new_payloads
            total.bytes_known += of_log.bytes_known
            total.payloads_of_unknown_size += of_log.payloads_of_unknown_size
        return total


async def sync_once(plan: SyncPlan) -> dict[str, Any]:
    """Connect, exchange, and return the result as a row."""
    identity = Identity.from_private_key(load_or_make_key(plan.folder).private_key)
    rules = plan.policy.changed(follow=()) if plan.policy is not None else None
    began_s = time.monotonic()
    async with BambooPeer.open(
        plan.folder, flavour=plan.flavour, identity=identity, settings=plan.settings, policy=rules
    ) as peer:
        seen = SyncCounts()
        peer.listeners.append(seen.receive_event)
        if plan.report is not None:
            peer.listeners.append(plan.report)
        async with _connected(peer, plan) as remote:
            interests = await _interests(peer, remote, plan)
            heights: dict[LogKey, int] = {}
            if plan.is_dry or any(interest.sparse and interest.end is None for interest in interests):
                await _probe(peer, remote, interests, seen)
                await _wait(peer, remote, plan, seen, None)
                heights = {log: totals.height for log, totals in seen.notified.items()}
            expected = seen.notified
            if plan.is_dry and plan.with_sizes:
                sized = [_sized(interest) for interest in interests]
                await _run(peer, remote, plan, seen, sized)
            elif not plan.is_dry:
                wanted = [
                    replace(interest, end=max(heights[interest.log], interest.start))
                    if interest.sparse and interest.end is None
                    else interest
                    for interest in interests
                    if not (interest.sparse and interest.end is None) or heights.get(interest.log)
                ]
                if not seen.probes and plan.shows_progress:
                    pulled = [interest for interest in wanted if interest.direction is not Direction.PUSH]
                    await _probe(peer, remote, pulled, seen)
                await _run(peer, remote, plan, seen, wanted)
        error = remote.session.error
        if error is None and seen.is_cut_short:
            error = ConnectionError("the other end closed the connection before all was through")
        return {
            "peer": str(plan.url),
            "principal": remote.principal,
            "logs": [log_name(interest.log) for interest in interests],
            "entries": seen.counts["entry"],
            "payloads": seen.counts["payload"],
            "notified_pieces": seen.pieces,
            "skipped_payloads": seen.counts["skipped"],
            "forks": seen.counts["fork"],
            "notified": [
                _notified_row(log, expected.get(log, now), now) for log, now in seen.notified.items()
            ],
            "cancelled": dict(seen.cancelled),
            "received_bytes": remote.session.received_bytes,
            "sent_bytes": remote.session.sent_bytes,
            "duration_s": round(time.monotonic() - began_s, 3),
            "dry_run": plan.is_dry,
            "error": None if error is None else getattr(error, "code", type(error).__name__),
            "reason": None if error is None else str(error),
        }


@asynccontextmanager
async def _connected(peer: BambooPeer, plan: SyncPlan) -> AsyncIterator[RemotePeer]:
    async with AsyncExitStack() as stack:
        with announced(f"waiting for {plan.url}{limit_text(plan.timeout_s)}"):
            remote = await when_it_answers(
                lambda: stack.enter_async_context(peer.connect(plan.url, trace=plan.trace)),
                plan.timeout_s,
            )
        yield remote


def _notified_row(log: LogKey, before: NotifiedTotals, after: NotifiedTotals) -> dict[str, Any]:
    """Return what would arrive: numbers from before sizes were requested, and sizes as they are known now."""
    return {
        "log": log_name(log),
        "height": after.height,
        "entries": after.entries,
        "payloads": after.payloads,
        "new_entries": before.new_entries,
        "new_payloads": after.new_payloads,
        "bytes": after.bytes_known,
        "payloads_of_unknown_size": after.payloads_of_unknown_size,
    }


def _sized(interest: FollowedLog) -> FollowedLog:
    """Return the request for metadata alone, which has the sizes."""
    return replace(interest, eagerness=Eagerness.THRESHOLD, threshold=0, direction=Direction.PULL)


async def _interests(peer: BambooPeer, remote: RemotePeer, plan: SyncPlan) -> list[FollowedLog]:
    """Choose logs by name, by the rules for this peer, or all logs of the folder."""
    followed: list[FollowedLog] = []
    if not plan.names and plan.policy is not None:
        rule = plan.policy.rule_for(remote.principal)
        followed = await peer.read(lambda store: rule.interests(store.logs))
    if followed and plan.is_restricted:
        raise InfraError(
            "the rules say what is asked of this peer: its logs, and which part of them",
            hint="name the logs that the options are about: --log",
        )
    if followed:
        return followed
    logs = await peer.read(lambda store: chosen_logs(plan.names, store))
    if not logs:
        raise typer.BadParameter("no log is named, and the folder holds none: give --log KEY/LOG_ID")
    return [plan.interest(log) for log in logs]


async def _probe(
    peer: BambooPeer, remote: RemotePeer, interests: list[FollowedLog], seen: SyncCounts
) -> None:
    """Ask what the other end has; used for the height, the totals, and a dry run."""
    for interest in interests:
        probe = replace(
            interest,
            eagerness=Eagerness.NOTIFY,
            threshold=None,
            direction=Direction.PULL,
            sparse=interest.sparse and interest.end is not None,
            payload_only=False,
        )
        seen.probes += [(request, interest) for request in await peer.ask(remote, probe)]


async def _run(
    peer: BambooPeer, remote: RemotePeer, plan: SyncPlan, seen: SyncCounts, interests: list[FollowedLog]
) -> None:
    async def ask() -> None:
        for interest in interests:
            await peer.ask(remote, interest)

    asking = asyncio.create_task(ask())
    try:
        await _wait(peer, remote, plan, seen, asking)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _wait(
    peer: BambooPeer, remote: RemotePeer, plan: SyncPlan, seen: SyncCounts, asking: asyncio.Task[None] | None
) -> None:
    """Wait until every request is finished, until nothing new has arrived for a while, or for the end."""
    idle_s = plan.idle_s if asking is not None else (plan.idle_s or 2.0)
    former, since_s, totals_s = -1, time.monotonic(), float("-inf")
    probes = {request.id for request, _ in seen.probes}
    with progress() as shown:
        task = shown.add_task("", total=None)
        while not remote.ended.is_set():
            session = remote.session
            now_s, moved = time.monotonic(), session.received_bytes + session.sent_bytes
            if now_s - totals_s >= _TOTALS_S:
                totals_s = now_s
                await _count(peer, seen)
                _emit_progress(plan, remote, seen)
            expected = seen.totals
            pieces = seen.counts["entry"] + seen.counts["payload"]
            total = pieces + expected.new_entries + expected.new_payloads
            unknown = "" if not expected.payloads_of_unknown_size else " and more"
            shown.update(
                task,
                completed=pieces,
                total=total if seen.probes else None,
                description=f"{seen.counts['entry']:,} entries, {moved / 1e6:,.1f} MB"
                f" of {(moved + expected.bytes_known) / 1e6:,.1f} MB{unknown}; pieces",
            )
            if moved != former:
                former, since_s = moved, now_s
            is_quiet = idle_s is not None and now_s - since_s > idle_s
            has_asked = asking is None or asking.done()
            if (
                has_asked
                and idle_s is not None
                and (is_quiet or not await _working(peer, remote, probes, asking))
            ):
                break
            await asyncio.sleep(_LOOK_S)
        else:
            has_asked = asking is None or asking.done()
            seen.is_cut_short = not has_asked or await _working(peer, remote, probes, asking)
    await _count(peer, seen)
    _emit_progress(plan, remote, seen)


async def _working(
    peer: BambooPeer, remote: RemotePeer, probes: set[int], asking: asyncio.Task[None] | None
) -> bool:
    """Whether a request is open that has to be waited for. Once data was requested, probes do not count."""
    requests = await peer.read(lambda _: [request.id for request in remote.session.connection.requests])
    return any(asking is None or id not in probes for id in requests)


async def _count(peer: BambooPeer, seen: SyncCounts) -> None:
    def count(store: FolderStore) -> dict[LogKey, NotifiedTotals]:
        totals: dict[LogKey, NotifiedTotals] = {}
        for request, interest in seen.probes:
            count_notified(request, interest, store, totals.setdefault(interest.log, NotifiedTotals()))
        return totals

    seen.notified = await peer.read(count)


def _emit_progress(plan: SyncPlan, remote: RemotePeer, seen: SyncCounts) -> None:
    if not plan.emits_progress:
        return
    expected = seen.totals
    emit_json(
        {
            "event": "progress",
            "entries": seen.counts["entry"],
            "payloads": seen.counts["payload"],
            "entries_to_come": expected.new_entries,
            "payloads_to_come": expected.new_payloads,
            "received_bytes": remote.session.received_bytes,
            "bytes_to_come": expected.bytes_known,
            "payloads_of_unknown_size": expected.payloads_of_unknown_size,
        }
    )
