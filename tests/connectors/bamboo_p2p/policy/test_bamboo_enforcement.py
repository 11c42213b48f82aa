"""The rules of a folder on connections: refusals that cannot be told apart, quotas, pauses, failover."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.interest import FollowedLog, proposals
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
from culm_connectors.bamboo_p2p.policy.enforcement import PolicyEnforcement, log_name
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.url import Url
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.peer import Peer
from culm_models.bamboo_p2p.settings import BambooSettings, Direction, Policy
from culm_models.bamboo_p2p.wire.control import encode_control, encode_setup
from culm_models.bamboo_p2p.wire.messages import Eagerness, Propose
from culm_models.keys import KeyPair
from tests.support.bamboo.waiting import until_stored
from tests.support.freeze import bamboo_folder
from tests.support.process.waiting import while_working

AUTHOR = KeyPair.generate(b"author of many logs")
KEY = AUTHOR.public_key.hex()
LOG, SECRET = (AUTHOR.public_key, 0), (AUTHOR.public_key, 1)
HERE = Url("tcp", "127.0.0.1", 0)
ANYBODY = "address:127.0.0.1"


def rules(**default: Any) -> FolderPolicy:
    return FolderPolicy.model_validate({"default": default})


class Watched(FolderStore):
    """A store that remembers what it was asked."""

    asked: list[str] | None = None

    def __getattribute__(self, name: str) -> Any:
        asked = object.__getattribute__(self, "asked")
        if asked is not None and not name.startswith("_"):
            asked.append(name)
        return object.__getattribute__(self, name)


def test_a_forbidden_log_is_refused_as_an_unknown_one_with_the_same_work(tmp_path: Path) -> None:
    store = Watched(tmp_path, YAMF)
    bamboo_folder.fill(store)
    policy = rules(read=["00" * 32], write=[])
    peer = Peer(store, BambooSettings())
    enforcement = PolicyEnforcement(policy, store, Policy())
    answers: list[tuple[bytes, list[str]]] = []
    unknown = (KeyPair.generate(b"nobody").public_key, 0)
    proposals = [
        Propose(0, *log, start, lower, 0, 2**64 - 1, bytes.fromhex("0040") + bytes(64), Eagerness.ALL)
        for log in (unknown, bamboo_folder.LONG, bamboo_folder.ENDED, bamboo_folder.FORKED)
        for start, lower in ((4, 4),)
    ]
    for number, proposal in enumerate(proposals):
        connection = peer.connect(
            str(number), is_proactive=False, now_ms=0, answers=enforcement.answers_for(ANYBODY)
        )
        connection.receive_control(encode_setup(BambooSettings().setup), 0)
        connection.take_control()
        store.asked = []
        connection.receive_control(encode_control(proposal), 0)
        asked, store.asked = store.asked, None
        answers.append((connection.take_control() + connection.next_data(), asked))
    assert all(answer == answers[0] for answer in answers[1:])
    assert answers[0][0][0] == 128
    store.close()


def has_payload(store: FolderStore, seq_num: int) -> bool:
    return store.has_payload(LOG, seq_num)


async def freed(peer: BambooPeer, remote: RemotePeer) -> None:
    """Wait until a connection has no request."""
    changed = asyncio.Event()
    peer.listeners.append(lambda _, __: changed.set())
    async with while_working():
        while await remote.open_requests():
            await changed.wait()
            changed.clear()


def opened(folder: Path, policy: FolderPolicy | None = None, **fields: Any) -> Any:
    return BambooPeer.open(
        folder, flavour=YAMF, settings=BambooPeerSettings(refresh_s=0.02, **fields), policy=policy
    )


async def test_a_reader_gets_what_it_may_read_and_brings_nothing(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "one", rules(read=[f"{KEY}/0"], write=[])) as peer,
        opened(tmp_path / "other") as other,
        peer.listen(HERE) as bound,
    ):
        for log_id in (0, 1):
            await peer.publish(AUTHOR, log_id, b"payload")
        await other.publish(AUTHOR, 2, b"brought")
        kinds: list[str] = []
        other.listeners.append(lambda _, event: kinds.append(event.kind))
        async with other.connect(bound) as remote:
            for log_id in (1, 2):
                await other.ask(remote, FollowedLog((AUTHOR.public_key, log_id)))
            await other.ask(remote, FollowedLog(LOG))
            await until_stored(other, lambda store: store.has_payload(LOG, 1))
        assert kinds.count("cancelled") >= 2
        assert await other.read(lambda store: not store.entries(SECRET))
        assert await peer.read(lambda store: not store.entries((AUTHOR.public_key, 2)))


async def test_logs_of_the_follow_list_are_asked_for_and_those_of_a_pattern_once_they_are_known(
    tmp_path: Path,
) -> None:
    follow = [{"logs": [f"{KEY}/0", "*/1"]}]
    async with (
        opened(tmp_path / "one") as peer,
        opened(tmp_path / "other", rules(follow=follow)) as other,
        peer.listen(HERE) as bound,
    ):
        for log_id in (0, 1, 2):
            for _ in range(2):
                await peer.publish(AUTHOR, log_id, b"payload")
        async with other.connect(bound):
            await until_stored(other, lambda store: store.has_payload(LOG, 2))
            first = await peer.read(lambda store: store.entry(SECRET, 1))
            await other.work(lambda peer: peer.store.put_entry(SECRET, first))
            await until_stored(other, lambda store: store.has_payload(SECRET, 2))
        assert await other.read(lambda store: not store.entries((AUTHOR.public_key, 2)))


async def test_what_is_paused_comes_after_it_was_resumed(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "one") as peer,
        opened(tmp_path / "other") as other,
        peer.listen(HERE) as bound,
    ):
        await peer.publish(AUTHOR, 0, b"first")
        await other.follow(FollowedLog(LOG))
        async with other.connect(bound) as remote:
            await until_stored(other, lambda store: store.has_payload(LOG, 1))
            for name in (log_name(LOG), ANYBODY):
                await other.pause(name)
                await freed(other, remote)
                published = await peer.publish(AUTHOR, 0, b"while it is paused")
                await peer.read(lambda _: None)
                seq_num = published.entry.seq_num
                assert not await other.read(lambda store: store.highest_entry(LOG) >= seq_num)  # noqa: B023
                await other.pause(name, is_paused=False)
                await until_stored(other, partial(has_payload, seq_num=seq_num))


async def test_a_paused_log_is_not_served_and_stays_paused_over_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path / "one") as peer:
        await peer.publish(AUTHOR, 0, b"first")
        await peer.pause(log_name(LOG))
    async with (
        opened(tmp_path / "one") as peer,
        opened(tmp_path / "other") as other,
        peer.listen(HERE) as bound,
        other.connect(bound) as remote,
    ):
        codes: asyncio.Queue[str] = asyncio.Queue()
        other.listeners.append(
            lambda _, event: codes.put_nowait(event.code.name) if event.kind == "cancelled" else None
        )
        await other.ask(remote, FollowedLog(LOG))
        assert await codes.get() == "RESOURCES"


async def test_of_a_full_author_nothing_more_is_taken(tmp_path: Path) -> None:
    policy = FolderPolicy.model_validate({"quotas": {"author_bytes": 250}})
    async with (
        opened(tmp_path / "one") as peer,
        opened(tmp_path / "other", policy) as other,
        peer.listen(HERE) as bound,
    ):
        await other.follow(FollowedLog(LOG))
        async with other.connect(bound) as remote:
            for number in range(1, 4):
                await peer.publish(AUTHOR, 0, bytes(100))
                await until_stored(other, partial(has_payload, seq_num=number))
            await freed(other, remote)
            await peer.publish(AUTHOR, 0, bytes(100))
        assert await other.read(lambda store: store.highest_entry(LOG)) == 3


async def test_a_peer_that_has_brought_enough_brings_no_more_and_may_still_read(tmp_path: Path) -> None:
    policy = rules(quota_bytes=250, quota_period_s=1e9)
    async with (
        opened(tmp_path / "one", policy) as peer,
        opened(tmp_path / "other") as other,
        peer.listen(HERE) as bound,
    ):
        for log_id in (0, 1):
            for _ in range(2):
                await other.publish(AUTHOR, log_id, bytes(100))
        await peer.publish(AUTHOR, 2, b"to be read")
        codes: asyncio.Queue[str] = asyncio.Queue()
        other.listeners.append(
            lambda _, event: codes.put_nowait(event.code.name) if event.kind == "cancelled" else None
        )
        async with other.connect(bound) as remote:
            await other.ask(remote, FollowedLog(LOG, direction=Direction.PUSH))
            await until_stored(peer, partial(has_payload, seq_num=2))
            await other.publish(AUTHOR, 0, bytes(100))
            await until_stored(peer, partial(has_payload, seq_num=3))
            await other.ask(remote, FollowedLog(SECRET, direction=Direction.PUSH))
            assert await codes.get() == "RESOURCES"
            await other.ask(remote, FollowedLog((AUTHOR.public_key, 2)))
            await until_stored(other, lambda store: store.has_payload((AUTHOR.public_key, 2), 1))
        assert await peer.read(lambda store: not store.entries(SECRET))


async def test_what_retention_dropped_is_passed_over_on_the_wire_and_not_asked_for_again(
    tmp_path: Path,
) -> None:
    policy = FolderPolicy.model_validate({"retention": {"max_bytes": 250, "interval_s": 0.01}})
    async with (
        opened(tmp_path / "one", policy) as peer,
        opened(tmp_path / "other") as other,
        peer.listen(HERE) as bound,
    ):
        for _ in range(5):
            await peer.publish(AUTHOR, 0, bytes(100))
        async with while_working(), other.connect(bound) as remote:
            # The peer looks by itself, again and again, and tells nobody here.
            while not await peer.read(lambda store: list(store.dropped(LOG)) == [(1, 4)]):
                await other.read(lambda _: None)
            skipped: list[int] = []
            other.listeners.append(
                lambda _, event: skipped.append(event.seq_num) if event.kind == "skipped" else None
            )
            await other.ask(remote, FollowedLog(LOG))
            await until_stored(other, lambda store: store.payloads(LOG).covers(4, 6))
        assert skipped == [1, 2, 3]
        assert await other.read(lambda store: store.entries(LOG).covers(1, 6))
        again = await peer.read(lambda store: proposals(FollowedLog(LOG), store))
        assert [wanted.start for wanted in again] == [6]


async def test_a_wall_clock_that_is_set_back_stops_no_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = FolderPolicy.model_validate({"retention": {"max_bytes": 250, "interval_s": 0.01}})
    yesterday_s = time.time() - 86_400
    async with opened(tmp_path / "one", policy) as peer, while_working():
        for entries, dropped in ((5, (1, 4)), (1, (1, 5))):
            for _ in range(entries):
                await peer.publish(AUTHOR, 0, bytes(100))
            # It looks until nothing is to be dropped, and from then on after each interval.
            while (
                list(await peer.read(lambda store: store.dropped(LOG))) != [dropped]
                or peer._retention._completed_s < 0
            ):
                await peer.read(lambda _: None)
            monkeypatch.setattr(time, "time", lambda: yesterday_s)


async def test_another_source_takes_over_where_one_stands_still(tmp_path: Path) -> None:
    for name in ("one", "two"):
        store = FolderStore(tmp_path / name, YAMF)
        with store.exclusively():
            for number in range(20):
                publish(store, AUTHOR, 0, b"payload %d" % number)
        store.close()
    async with (
        opened(tmp_path / "one") as peer,
        opened(tmp_path / "two") as two,
        opened(tmp_path / "other", progress_timeout_s=0.5) as other,
        peer.listen(HERE) as first,
        two.listen(HERE) as second,
    ):
        # The first source answers proposals, and then its thread stands still.
        release = asyncio.Event()
        blocked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stand_still(_: object) -> None:
            loop.call_soon_threadsafe(blocked.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

        standing = asyncio.create_task(peer.work(stand_still))
        await blocked.wait()
        await other.follow(FollowedLog(LOG))
        async with other.connect(first), other.connect(second):
            await until_stored(other, lambda store: store.payloads(LOG).covers(1, 21))
            release.set()
            await standing


async def test_proposals_beyond_the_credit_are_made_when_credit_comes(tmp_path: Path) -> None:
    settings = BambooPeerSettings(connection=BambooSettings(credit=1))
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=settings) as peer,
        opened(tmp_path / "other") as other,
        peer.listen(HERE) as bound,
    ):
        logs: list[LogKey] = [(AUTHOR.public_key, log_id) for log_id in range(4)]
        for _, log_id in logs:
            await peer.publish(AUTHOR, log_id, b"all of it", end_of_log=True)
        for log in logs:
            await other.follow(FollowedLog(log))
        async with other.connect(bound):
            await until_stored(other, lambda store: all(store.has_payload(log, 1) for log in logs))
