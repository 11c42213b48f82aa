"""Set reconciliation over real QUIC: who speaks it with whom, what it takes, what harms nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from culm_connectors.clock import steady_ms
from culm_connectors.logs.index import layout
from culm_connectors.p2panda.settings import DriverSettings, SessionSettings, peer_settings
from culm_models.p2panda.events import PeerEvent, Reconciled, SessionFailed
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire.messages import SyncDone, SyncRequest
from culm_models.reconciliation.messages import EmptySet, Fingerprint, LowerBound, Terminal
from culm_topics.records import log_key
from tests.support.connectors.edge import reference_peer, write_document
from tests.support.hostile.remote import hostile
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

MALLORY = author("mallory")


async def test_peers_find_what_differs_by_ranges(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b", live_mode=False) as b,
        a.serve() as listener,
    ):
        shared = [make_log(author(f"author {number}"), 0, 1 + number % 3) for number in range(60)]
        for log in shared:
            await a.add(pairs(log))
            await b.add(pairs(log))
        await write_document(a, 4)
        await write_document(b, 2)
        events: list[Reconciled] = []

        def hear(event: PeerEvent) -> None:
            if isinstance(event, Reconciled):
                events.append(event)

        a.listeners.append(hear)
        first = await b.sync(listener.address)
        assert (first.modes, first.differing_logs) == ((1,), 2)
        assert (first.entries_received, first.entries_sent, first.entries_rejected) == (5, 3, 0)
        await until(lambda: a.heights() == b.heights())
        second = await b.sync(listener.address)
        assert (second.modes, second.differing_logs, second.rounds) == ((1,), 0, 2)
        assert (second.entries_received, second.entries_sent) == (0, 0)
        assert a.driver.metrics.duplicates == b.driver.metrics.duplicates == 0
        for ours, theirs in zip((first, second), events, strict=True):
            assert theirs.bytes_in + theirs.bytes_out == ours.reconciliation_bytes
        metrics = a.driver.metrics
        assert (metrics.sessions_by_mode[1], metrics.reconciled, metrics.differing_logs) == (2, 2, 2)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {"mode": "heights"}),
        ({"mode": "heights"}, {}),
        ({}, {"compat": "aquadoggo"}),
    ],
)
async def test_log_heights_are_what_everybody_speaks(
    tmp_path: Path, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    def options(arguments: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in arguments.items() if name != "mode"}
        return rest | ({"sessions": SessionSettings(mode=arguments["mode"])} if "mode" in arguments else {})

    async with (
        reference_peer(tmp_path, "a", **options(theirs)) as a,
        reference_peer(tmp_path, "b", live_mode=False, **options(ours)) as b,
        a.serve() as listener,
    ):
        await write_document(a, 4)
        await write_document(b, 2)
        summary = await b.sync(listener.address)
        assert (summary.modes, summary.rounds) == ((0,), 0)
        await until(lambda: a.heights() == b.heights())


async def test_settings_that_differ_converge(tmp_path: Path) -> None:
    patient = SessionSettings(rule="upstream", compact_form=False)
    hasty = SessionSettings(latency=True, lift="siphash128")
    async with (
        reference_peer(tmp_path, "a", sessions=patient) as a,
        reference_peer(tmp_path, "b", live_mode=False, sessions=hasty) as b,
        a.serve() as listener,
    ):
        for number in range(200):
            log = make_log(author(f"author {number}"), 0, 1 + number % 3)
            await a.add(pairs(log[: 1 + number % 2]))
            await b.add(pairs(log))
        summary = await b.sync(listener.address)
        assert summary.modes == (1,)
        await until(lambda: a.heights() == b.heights())


def test_the_dialect_of_nodes_offers_nothing() -> None:
    settings = peer_settings(SessionSettings(), DriverSettings(), live_mode=True, compat="aquadoggo")
    assert (settings.offer, settings.modes) == (None, (0,))


async def test_several_sessions_at_a_time_with_one_remote(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA, OTHER_SCHEMA]) as b,
        a.serve() as listener,
    ):
        b.dial(listener.address)
        await until(lambda: b.driver.metrics.sessions_live == 1)
        # An interest that grows is a session of its own, beside the one that is live.
        a.driver.announce((OTHER_SCHEMA, SCHEMA))
        await until(lambda: b.driver.metrics.sessions_live == 2)
        (first, second) = b.driver.peer.sessions(a.peer_id)
        assert (first.schema_ids, second.schema_ids) == ((SCHEMA,), (OTHER_SCHEMA,))
        for schema in (SCHEMA, OTHER_SCHEMA):
            log = await write_document(a, 3, schema_id=schema)
            await b.wait_until_holding({log[0].log: 4}, 30)
        # Live mode is left for one of them, and entered again.
        b.driver.peer.stop_live(a.peer_id, second.session_id, steady_ms())
        assert [session.state for session in b.driver.peer.sessions(a.peer_id)] == [SessionState.LIVE]
        log = await write_document(a, 3, schema_id=OTHER_SCHEMA)
        b.driver.announce((OTHER_SCHEMA, SCHEMA))
        await b.wait_until_holding({log[0].log: 4}, 30)


async def test_a_remote_that_vanishes_in_the_middle_is_caught_up_with_later(tmp_path: Path) -> None:
    small = DriverSettings(write_bytes=1_024, check_chunk=8, store_batch=8)
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA], driver=small) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA], driver=small) as b,
        a.serve() as listener,
    ):
        for _ in range(20):
            await write_document(a, 100)
        failed: list[str] = []

        def hear(event: PeerEvent) -> None:
            if isinstance(event, SessionFailed):
                failed.append(event.code)

        b.listeners.append(hear)
        b.dial(listener.address)
        for share in (200, 800, 1_400):
            await until(lambda share=share: sum(b.heights().values()) >= share)  # type: ignore[misc]
            if (link := b.driver.links.open.get(a.peer_id)) is not None:
                link.connection.abort(0x999, "pulled out")
        await b.wait_until_holding(a.heights(), 60)
        assert "p2panda.session.disconnected" in failed
        assert b.driver.metrics.rejects.total() == 0


def strange_fingerprint(session_id: int) -> list[Any]:
    low, high = (bytes(32), 0, 0), (b"\xff" * 32, 0, 0)
    return [
        LowerBound(session_id, low),
        Fingerprint(session_id, fingerprint=b"\x63" + bytes(16), upper_bound=high),
        Terminal(session_id),
    ]


@pytest.mark.parametrize("messages", [strange_fingerprint(0), [EmptySet(0, False)]])
async def test_a_strange_opening_costs_its_session_alone(tmp_path: Path, messages: list[Any]) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", live_mode=False) as b,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await write_document(a, 2)
        await remote.say(SyncRequest(0, 1, (SCHEMA,)), *messages)
        metrics = a.driver.metrics
        await until(
            lambda: metrics.sessions_failed.total() or metrics.ignored.total() or metrics.sessions_done
        )
        assert (await b.sync(listener.address)).entries_received == 3
        assert remote.connection.close_reason is None


async def test_messages_of_no_session_are_passed_over(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await remote.say(*strange_fingerprint(7), SyncDone(3, True))
        await until(lambda: a.driver.metrics.ignored["p2panda.session.unknown"] >= 1)
        assert remote.connection.close_reason is None


async def test_a_peer_knows_its_sync_range_when_it_opens(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a:
        log = await write_document(a, 2)
    async with reference_peer(tmp_path, "a") as a:
        # What is not read by now would be read by the first session, on the event loop.
        index = a.store.ranges.index(SCHEMA)
        assert len(index) == 1
        assert a.store.height(*log[0].log) == 3
        a.store.ranges.raise_heights(SCHEMA, log_key(*log[0].log) + layout.U64.pack(9))
        assert a.store.ranges.index(SCHEMA) is index


def test_how_long_a_session_may_be_idle_is_set_at_the_edge() -> None:
    settings = peer_settings(SessionSettings(), DriverSettings(session_timeout_s=2.5), live_mode=True)
    assert settings.session_timeout_ms == 2_500
