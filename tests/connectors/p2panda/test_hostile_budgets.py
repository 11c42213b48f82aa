"""What a hostile remote may cost over live connections: its own service, and nobody else's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from culm_connectors.p2panda.connections.budgets import Budgets
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport import CloseCode, ConnectError
from culm_models.p2panda.wire.messages import Announce, Have, Message, SyncDone, SyncRequest
from tests.support.connectors.edge import reference_peer, write_document
from tests.support.hostile.attacks import announcements, empty_containers, forged_entries, forked_logs
from tests.support.hostile.remote import Hostile, hostile
from tests.support.p2panda.logs import SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

MALLORY, ANNA = author("mallory"), author("anna")
NOW_S = 1_000.0


async def begin_session(remote: Hostile) -> None:
    await remote.say(Announce(1, 1, (SCHEMA,)), SyncRequest(0, 0, (SCHEMA,)), Have(0, ()))
    await until(lambda: any(isinstance(message, SyncDone) for message in remote.heard))


async def test_expensive_cbor_ends_the_connection_before_it_is_decoded(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await remote.send(empty_containers(2 * 1024 * 1024))
        assert (await remote.closed()).code == CloseCode.TOO_LARGE
        assert a.driver.metrics.bytes_in <= a.driver.settings.read_bytes


async def test_a_large_have_is_decoded_beside_the_event_loop_and_answered(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        log = await write_document(a, 2)
        heights = tuple((bytes(24) + number.to_bytes(8, "big"), 0, 1) for number in range(5_000))
        large: list[Message] = [Announce(1, 1, (SCHEMA,)), SyncRequest(0, 0, (SCHEMA,))]
        await remote.say(*large, Have(0, (*heights, (*log[0].log, 3))))
        await until(lambda: SyncDone(0, True) in remote.heard)
        assert not any(message.__class__.__name__ == "EntryMessage" for message in remote.heard)


async def test_a_key_whose_entries_were_refused_is_not_served_when_it_comes_again(tmp_path: Path) -> None:
    log = make_log(author("writer"), 0, 20)
    forged = forged_entries(log)
    limits = DriverSettings(rejects_per_minute=20)
    async with reference_peer(tmp_path, "a", schemas=[SCHEMA], driver=limits) as a, a.serve() as listener:
        async with hostile(listener.address, MALLORY) as remote:
            await begin_session(remote)
            await remote.send(b"".join(itertools.islice(forged, 500)))
            assert (await remote.closed()).code == CloseCode.PROTOCOL
        with pytest.raises(ConnectError, match="come again later"):
            async with hostile(listener.address, MALLORY):
                pass
        assert (a.driver.metrics.refused, a.driver.metrics.closed) == ({"barred": 1}, {"protocol": 1})
        async with hostile(listener.address, ANNA) as honest:
            await begin_session(honest)


async def test_the_holder_of_the_other_branches_of_forked_logs_stays(tmp_path: Path) -> None:
    forks = forked_logs(MALLORY, 100, 3)
    limits = DriverSettings(rejects_per_minute=20)
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA], driver=limits) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        a.serve() as listener,
    ):
        for ours, theirs in forks:
            await a.add(pairs(ours[:2]))
            await b.add(pairs(theirs))
        own = await write_document(b)
        b.dial(listener.address)
        await a.wait_until_holding({own[0].log: 1}, 20)
        await until(lambda: a.driver.metrics.rejects["bamboo.backlink_mismatch"] == 100)
        await write_document(b)
        await until(lambda: len(a.heights()) == 102)
        assert not a.driver.metrics.closed
        assert a.driver.metrics.connections_total == 1


async def test_announcements_are_paced(tmp_path: Path) -> None:
    limits = DriverSettings(announcements_per_minute=1, burst_announcements=5)
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA], driver=limits) as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await remote.say(*itertools.islice(announcements([SCHEMA]), 50))
        await until(lambda: a.driver.peer.counts["announced"] == 5)
        async with hostile(listener.address, ANNA) as honest:
            await begin_session(honest)
        assert a.driver.peer.counts["announced"] == 6


# Budgets.


def budgets(**settings: float) -> Budgets:
    return Budgets(DriverSettings.model_validate(settings))


async def test_own_announcements_keep_to_half_of_what_remotes_read(tmp_path: Path) -> None:
    settings = DriverSettings(tick_interval_s=0.01, announcements_per_minute=1_200, burst_announcements=4)
    async with reference_peer(tmp_path, "a", driver=settings) as a:
        announced: list[tuple[str, ...]] = []
        real = a.driver.peer.announce

        def announce(schema_ids: Sequence[str], now: int) -> None:
            announced.append(tuple(schema_ids))
            real(schema_ids, now)

        a.driver.peer.announce = announce  # type: ignore[method-assign]
        for number in range(20):
            a.driver.announce([f"blob_v{number + 1}"])
        assert len(announced) <= 2
        await until(lambda: announced[-1] == ("blob_v20",))
        assert len(announced) <= 3, "what was announced meanwhile is passed over for what is newest"


def test_a_new_connection_goes_on_with_what_the_key_had_left() -> None:
    kept = budgets(rejects_per_minute=10)
    assert kept.of(b"m", "192.0.2.1", NOW_S).refuse(10, NOW_S)
    again = kept.of(b"m", "192.0.2.9", NOW_S + 1)
    assert not again.refuse(1, NOW_S + 1)
    assert again.is_barred(NOW_S + 30)
    assert not again.is_barred(NOW_S + 31)


def test_many_keys_of_one_address_are_barred_together_but_for_those_that_brought_something_sound() -> None:
    kept = budgets(rejects_per_minute=10, max_keys_per_address=3)
    good = kept.of(b"good", "192.0.2.1", NOW_S)
    good.is_trusted = True
    for key in (b"a", b"b", b"c", b"d"):
        kept.of(key, "192.0.2.1", NOW_S).refuse(10, NOW_S)
    assert kept.of(b"new", "192.0.2.1", NOW_S).is_barred(NOW_S)
    assert not kept.of(b"new", "192.0.2.2", NOW_S).is_barred(NOW_S)
    assert not good.is_barred(NOW_S)


def test_keys_that_went_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("culm_connectors.p2panda.connections.budgets.MAX_KEPT", 3)
    kept = Budgets(DriverSettings(rejects_per_minute=1))
    kept.begin(b"stays", "192.0.2.1", NOW_S).refuse(2, NOW_S)
    for number in range(10):
        kept.of(b"%d" % number, f"192.0.2.{number}", NOW_S)
    assert kept.of(b"stays", "192.0.2.1", NOW_S).is_barred(NOW_S)
