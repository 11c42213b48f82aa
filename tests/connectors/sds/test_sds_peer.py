"""Full participants over real QUIC: live, from the past, through broken connections, killed and restarted."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.sds.errors import JoinRefusedError, SdsEdgeError
from culm_connectors.sds.participants.participant import LoggedMessage
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import Address
from culm_models.keys import KeyPair
from culm_models.sds.errors import EmptyContentError
from culm_models.sds.events import Delivered, SdsEvent
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.codec import decode
from tests.support.connectors.quic import lossy_proxy, quick_settings
from tests.support.process.waiting import until, while_working
from tests.support.sds.edge import MemoryBackbone, message, serving

# Clocks that tests can wait for.
QUICK = SdsSettings(
    resend_unacknowledged_ms=200,
    resend_possibly_acknowledged_ms=400,
    resend_max_ms=1_000,
    resend_attempts=1_000,
    fetch_retry_ms=200,
    fetch_max_ms=1_000,
    sync_floor_ms=150,
    sync_spread_ms=150,
    repair_t_min_ms=300,
    repair_t_max_ms=600,
)


def key(name: str) -> KeyPair:
    return KeyPair.from_private_key(name.encode().ljust(32, b"-"))


def peer(folder: Path, name: str, **options: Any) -> SdsPeer:
    options.setdefault("settings", QUICK)
    return SdsPeer(
        folder / name,
        "room",
        key_pair=key(name),
        participant_id=name,
        durable=False,
        transport=quick_settings(silence_timeout_s=1.5, ping_interval_s=0.5, probe_timeout_s=0.5),
        **options,
    )


@contextlib.asynccontextmanager
async def online(folder: Path, address: Address, name: str, **options: Any) -> AsyncIterator[SdsPeer]:
    async with peer(folder, name, **options) as made:
        made.dial(address)
        async with while_working():
            await made.joined.wait()
        yield made


def log(of: SdsPeer) -> list[tuple[int, str]]:
    return list(of.status().log)


async def agree(*peers: SdsPeer, size: int) -> None:
    await until(lambda: all(len(log(peer)) == size for peer in peers))
    assert all(log(peer) == log(peers[0]) for peer in peers)


async def test_two_participants_hear_each_other_and_know_it(tmp_path: Path) -> None:
    async with (
        serving(MemoryBackbone()) as (_, address),
        online(tmp_path, address, "alice") as alice,
        online(tmp_path, address, "bob") as bob,
    ):
        logged: list[LoggedMessage] = []
        bob.log_listeners.append(logged.append)
        first = await alice.send(b"hello")
        await bob.wait_for(lambda: bool(logged))
        assert (logged[0].content, logged[0].sender_id, logged[0].own) == (b"hello", "alice", False)
        second = await bob.send(b"hello")
        assert first != second
        async with while_working():
            assert await alice.acknowledged(first)
            assert await bob.acknowledged(second)
        await agree(alice, bob, size=2)
        await until(lambda: [message.own for message in bob.history()] == [False, True])


async def test_a_late_participant_gets_the_past_and_then_what_happens(tmp_path: Path) -> None:
    async with (
        serving(MemoryBackbone(stores=True)) as (_, address),
        online(tmp_path, address, "alice") as alice,
    ):
        for number in range(30):
            await alice.send(b"%d" % number)
        async with online(tmp_path, address, "late") as late:
            await agree(alice, late, size=30)
            expected = [b"%d" % number for number in range(30)]
            await until(lambda: [logged.content for logged in late.history()] == expected)
            await alice.send(b"new")
            await agree(alice, late, size=31)


async def test_ephemeral_messages_are_heard_by_those_who_are_there(tmp_path: Path) -> None:
    backbone = MemoryBackbone(stores=True)
    async with (
        serving(backbone) as (_, address),
        online(tmp_path, address, "alice") as alice,
        online(tmp_path, address, "bob") as bob,
    ):
        heard: list[SdsEvent] = []
        bob.listeners.append(heard.append)
        await alice.send(b"typing", ephemeral=True)
        await bob.wait_for(lambda: any(isinstance(event, Delivered) for event in heard))
        assert [event.content for event in heard if isinstance(event, Delivered)] == [b"typing"]
        assert not log(bob) and not backbone.store


async def test_what_was_missed_while_away_comes_from_where_it_left_off(tmp_path: Path) -> None:
    async with (
        serving(MemoryBackbone(stores=True)) as (driver, address),
        online(tmp_path, address, "alice") as alice,
    ):
        async with online(tmp_path, address, "bob") as bob:
            await alice.send(b"first")
            await agree(alice, bob, size=1)
            # The edge tells from time to time how far the store has been heard.
            await until(lambda: bob._participant.cursor not in (None, b"", bytes(8)))
        for number in range(10):
            await alice.send(b"%d" % number)
        before = driver.metrics.history_out
        async with online(tmp_path, address, "bob") as bob:
            await agree(alice, bob, size=11)
            assert driver.metrics.history_out - before == 10


async def test_the_very_last_message_is_asked_for(tmp_path: Path) -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address), online(tmp_path, address, "alice") as alice:
        await alice.present.wait()
        backbone.keep("room", message("bob", "trailing", 5))
        await until(lambda: [logged.message_id for logged in alice.history()] == ["trailing"])


async def test_what_is_said_without_a_connection_goes_out_when_there_is_one(tmp_path: Path) -> None:
    settings = SdsSettings()
    async with (
        serving(MemoryBackbone()) as (_, address),
        online(tmp_path, address, "bob") as bob,
        peer(tmp_path, "alice", settings=settings) as alice,
    ):
        await alice.send(b"offline")
        with pytest.raises(SdsEdgeError):
            await alice.send(b"typing", ephemeral=True)
        alice.dial(address)
        await agree(alice, bob, size=1)


async def test_a_message_said_before_a_kill_goes_out_after_it(tmp_path: Path) -> None:
    async with serving(MemoryBackbone()) as (_, address), online(tmp_path, address, "bob") as bob:
        async with peer(tmp_path, "alice", settings=SdsSettings()) as alice:
            await alice.send(b"before the end")
        async with online(tmp_path, address, "alice", settings=SdsSettings()) as alice:
            await agree(alice, bob, size=1)


async def test_a_refused_message_is_an_error_and_nothing_else(tmp_path: Path) -> None:
    async with serving(MemoryBackbone()) as (_, address), online(tmp_path, address, "alice") as alice:
        with pytest.raises(EmptyContentError):
            await alice.send(b"")
        await alice.send(b"fine")
        assert len(log(alice)) == 1


async def test_a_participant_that_may_not_join_is_told(tmp_path: Path) -> None:
    async with (
        serving(MemoryBackbone(), permit=lambda *_: False) as (_, address),
        peer(tmp_path, "alice") as alice,
    ):
        with pytest.raises(JoinRefusedError):
            async with while_working():
                await alice.dial(address)


async def test_a_message_that_an_ending_connection_has_swallowed_goes_out_on_the_next_one(
    tmp_path: Path,
) -> None:
    # The machine would send it again in an hour, and name it in a sync message no sooner.
    patient = SdsSettings(
        resend_unacknowledged_ms=3_600_000,
        resend_max_ms=3_600_000,
        sync_floor_ms=3_600_000,
        sync_spread_ms=3_600_000,
    )
    async with (
        serving(MemoryBackbone()) as (_, address),
        lossy_proxy(address, seed=7) as proxy,
        online(tmp_path, address, "bob", settings=patient) as bob,
        online(tmp_path, proxy.address, "alice", settings=patient) as alice,
    ):
        first = await alice.send(b"first")
        await until(lambda: first in [id for _, id in log(bob)])
        proxy.partition()
        await alice.send(b"swallowed")
        await until(lambda: not alice.joined.is_set())
        proxy.heal()
        proxy.rebind()
        await agree(alice, bob, size=2)


async def test_connections_that_break_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    async with (
        serving(MemoryBackbone(stores=True)) as (_, address),
        lossy_proxy(address, seed=7) as proxy,
        online(tmp_path, address, "bob") as bob,
        online(tmp_path, proxy.address, "alice") as alice,
    ):
        for number in range(24):
            await alice.send(b"a%d" % number)
            await bob.send(b"b%d" % number)
            if number % 6 == 2:
                proxy.partition()
            if number % 6 == 5:
                await until(lambda: not alice.joined.is_set())
                proxy.heal()
                proxy.rebind()
                async with while_working():
                    await alice.joined.wait()
        await agree(alice, bob, size=48)
        await until(lambda: len(list(alice.history())) == len(list(bob.history())) == 48)
        for peer in (alice, bob):
            assert len({logged.message_id for logged in peer.history()}) == 48


async def test_a_killed_participant_says_no_id_with_other_bytes_and_is_told_nothing_twice(
    tmp_path: Path,
) -> None:
    backbone = MemoryBackbone(stores=True)
    logged: list[tuple[int, str]] = []
    async with serving(backbone) as (_, address), online(tmp_path, address, "bob") as bob:
        for life in range(6):
            async with peer(tmp_path, "alice") as alice:
                alice.log_listeners.append(
                    lambda message: logged.append((message.number, message.message_id))
                )
                alice.dial(address)
                for number in range(4):
                    await bob.send(b"b%d.%d" % (life, number))
                    await alice.send(b"a%d.%d" % (life, number))
                if life % 2:
                    await agree(alice, bob, size=8 * (life + 1))
                # Leaving the context cancels it wherever it stands: nothing is finished in good order.
        async with online(tmp_path, address, "alice") as alice:
            await agree(alice, bob, size=48)
            await until(lambda: len(list(alice.history())) == 48)
            history = [(message.number, message.message_id) for message in alice.history()]
    assert len({message_id for _, message_id in history}) == len(history) == 48
    assert len(logged) == len(set(logged)) and set(logged) <= set(history)
    bytes_of: dict[str, set[bytes]] = {}
    for _, record in backbone.said:
        message = decode(record.wire, record.profile)
        if message.kind == "content":
            bytes_of.setdefault(message.message_id, set()).add(record.wire)
    assert all(len(wires) == 1 for wires in bytes_of.values())


async def test_a_participant_answers_for_what_the_store_lacks(tmp_path: Path) -> None:
    async with (
        serving(MemoryBackbone()) as (_, address),
        online(tmp_path, address, "alice") as alice,
        online(tmp_path, address, "bob") as bob,
    ):
        for number in range(5):
            await alice.send(b"%d" % number)
        await agree(alice, bob, size=5)
        async with online(tmp_path, address, "late") as late:
            await agree(alice, bob, late, size=5)


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
async def test_every_profile_is_spoken(tmp_path: Path, profile: Any) -> None:
    async with (
        serving(MemoryBackbone(stores=True)) as (_, address),
        online(tmp_path, address, "alice", profile=profile, settings=None) as alice,
        online(tmp_path, address, "bob", profile=profile, settings=None) as bob,
    ):
        for number in range(3):
            await alice.send(b"a%d" % number)
            await bob.send(b"b%d" % number)
        await agree(alice, bob, size=6)


async def test_two_processes_cannot_be_the_same_participant(tmp_path: Path) -> None:
    async with peer(tmp_path, "alice"):
        with pytest.raises(SdsEdgeError):
            async with peer(tmp_path, "alice"):
                pass


async def test_who_joins_under_an_id_that_is_active_elsewhere_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(MemoryBackbone()) as (_, address),
        online(tmp_path / "one", address, "ann") as first,
        online(tmp_path / "two", address, "ann") as second,
    ):
        await second.joined.wait()
        await first.send(b"hello")
        await until(lambda: "ann is active elsewhere" in caplog.text)
