"""Parts of payloads that nobody has verified: each principal has a share of their room, and they expire."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.spool_capacity import SpoolCapacity
from culm_connectors.bamboo_p2p.store.tables import DATABASE_FILE
from culm_connectors.edge.fair_turns import calling
from culm_connectors.url import Url
from culm_models.bamboo.entry import decode_entry, sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.errors import LimitReached
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import RawPayload, Switch
from culm_models.bymux import CONTROL, DATA
from culm_models.keys import KeyPair
from tests.support.bamboo.brokerless import brokerless_edge
from tests.support.bamboo.edge import until_held
from tests.support.hostile.bamboo import hostile_channels, open_proposal
from tests.support.process.waiting import until

AUTHORS = [KeyPair.generate(b"author %d of what is never whole" % number) for number in range(3)]
LOG, FURTHER, LAST = ((author.public_key, 0) for author in AUTHORS)
HERE = Url("quic", "127.0.0.1", 0)
STRANGER = b"s" * 32
DAY_S = 86_400


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def opened(folder: Path, clock: Clock | None = None) -> FolderStore:
    """A folder with a spool of 400 bytes, of which anybody has 100."""
    return FolderStore(folder, YAMF, max_spool_bytes=400, clock_s=clock or Clock())


def bring(store: FolderStore, who: str, seq_num: int, offset: int, size: int) -> None:
    with store.shares.received_from(who):
        store.put_unverified(LOG, seq_num, offset, bytes(size))


def counts(store: FolderStore, *principals: str) -> list[int]:
    return [store.shares.bytes_of(principal) for principal in principals]


def room(store: FolderStore, *, timeout_s: float = 60.0) -> SpoolCapacity:
    return SpoolCapacity(store, timeout_s=timeout_s, expires_s=DAY_S)


def test_a_byte_counts_to_who_brought_it_first_until_its_payload_is_forgotten(tmp_path: Path) -> None:
    store = opened(tmp_path)
    bring(store, "one", 1, 0, 60)
    bring(store, "other", 1, 40, 40)
    assert counts(store, "one", "other") == [60, 20] and store.spooled_bytes == 80
    # Who brings it all again neither takes it over nor frees its room.
    bring(store, "other", 1, 0, 80)
    bring(store, "one", 2, 0, 50)
    assert counts(store, "one", "other") == [110, 20] and store.shares.full == {"one"}
    # What is put without a name counts to nobody.
    store.put_unverified(LOG, 3, 0, bytes(300))
    store.discard_unverified(LOG, 1)
    assert counts(store, "one", "other") == [50, 0] and not store.shares.full
    store.close()


def test_shares_outlive_a_process_and_are_free_when_a_payload_is_held(tmp_path: Path) -> None:
    entry_bytes = sign_entry(
        AUTHORS[0], 0, 1, bytes(120), skiplink=None, backlink=None, end_of_log=False, flavour=YAMF
    )
    store = opened(tmp_path)
    store.put_entry(LOG, HeldEntry(decode_entry(entry_bytes, YAMF), entry_bytes, YAMF.hash(entry_bytes)))
    bring(store, "one", 1, 0, 110)
    store.commit()
    store.close()
    again = opened(tmp_path)
    assert counts(again, "one") == [110] and again.shares.full == {"one"}
    bring(again, "other", 1, 110, 10)
    assert again.verify_payload(LOG, 1)
    assert counts(again, "one", "other") == [0, 0] and not again.shares.full
    again.close()


def test_a_folder_opens_with_half_of_the_spool_free(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put_unverified(LOG, 4, 0, bytes(90))
    bring(store, "one", 2, 0, 90)
    bring(store, "other", 2, 90, 10)
    bring(store, "one", 3, 0, 100)
    store.commit()
    store.close()
    again = opened(tmp_path)
    # The oldest go, whoever has brought them.
    assert list(again.partial_payloads(LOG)) == [2, 3] and counts(again, "one", "other") == [190, 10]
    again.close()


async def test_whose_share_is_full_waits_alone_and_not_for_ever(tmp_path: Path) -> None:
    store = opened(tmp_path)
    spool = room(store)
    bring(store, "one", 1, 0, 100)
    spool.settled()
    await spool.wait_for_capacity("other")
    waiting = asyncio.create_task(spool.wait_for_capacity("one"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    store.discard_unverified(LOG, 1)
    spool.settled()
    await waiting
    bring(store, "one", 1, 0, 100)
    hurried = room(store, timeout_s=0.0)
    with pytest.raises(LimitReached, match="no capacity"):
        await hurried.wait_for_capacity("one")
    # The room of all is bounded for everybody.
    store.put_unverified(LOG, 2, 0, bytes(300))
    hurried.settled()
    with pytest.raises(LimitReached):
        await hurried.wait_for_capacity("other")
    store.close()


async def test_parts_expire_a_day_after_the_last_byte_but_not_those_of_topics(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock)
    bring(store, "one", 1, 0, 50)
    bring(store, "one", 2, 0, 50)
    store.put_unverified(LOG, 3, 0, bytes(10))
    bring(store, "one", 3, 10, 10)
    clock.now_s += DAY_S - 1
    bring(store, "other", 2, 50, 1)
    # What is there already is no further byte.
    bring(store, "other", 1, 0, 50)
    assert not room(store).drop_expired()
    clock.now_s += 1
    dropped = room(store).drop_expired()
    assert list(dropped.entries) == list(dropped.discarded) == [(LOG, 1)]
    assert counts(store, "one", "other") == [60, 1] and store.spooled_bytes == 71
    clock.now_s += DAY_S
    assert list(room(store).drop_expired().discarded) == [(LOG, 2)]
    store.close()


async def test_who_leaves_with_a_full_share_has_room_when_it_comes_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for seq_num in (1, 2, 3, 4):
        bring(store, "one", seq_num, 0, 30)
    bring(store, "other", 1, 30, 40)
    spool = room(store)
    assert not spool.drop_of("other")
    # The oldest go, but not what others have brought the most of.
    assert list(spool.drop_of("one").discarded) == [(LOG, 2), (LOG, 3), (LOG, 4)]
    assert counts(store, "one", "other") == [30, 40]
    store.close()


def bring_from(store: FolderStore, address: str, number: int) -> None:
    """One of many principals of an address brings 40 bytes of a payload that nobody else brings."""
    with calling(address, f"key {number}"):
        bring(store, f"key {number}", number, 0, 40)


async def test_principals_of_one_address_have_half_of_the_spool_together(tmp_path: Path) -> None:
    store = opened(tmp_path)
    spool = room(store, timeout_s=0.0)
    for number in range(1, 6):
        bring_from(store, "10.0.0.1", number)
    spool.settled()
    with calling("10.0.0.1", "key 6"), pytest.raises(LimitReached):
        await spool.wait_for_capacity("key 6")
    with calling("10.0.0.2", "honest"):
        await spool.wait_for_capacity("honest")
    store.commit()
    store.close()
    again = opened(tmp_path)
    assert again.shares.addresses.full == {"10.0.0.1"}
    # Nobody calls from there any more: the oldest goes, down to half.
    assert list(room(again).drop_from("10.0.0.1").discarded) == [(LOG, 1), (LOG, 2), (LOG, 3)]
    assert not again.shares.addresses.full
    again.close()


async def test_parts_in_a_folder_of_before_count_to_nobody_and_expire(tmp_path: Path) -> None:
    store = opened(tmp_path)
    bring(store, "one", 1, 0, 120)
    store.commit()
    store.close()
    with sqlite3.connect(tmp_path / DATABASE_FILE) as database:
        database.execute("DROP TABLE spooled")
        database.execute("DROP TABLE spooled_from")
        database.execute("PRAGMA user_version = 3")
    database.close()
    clock = Clock()
    again = opened(tmp_path, clock)
    assert again.spooled_bytes == 120 and counts(again, "one") == [0] and not again.shares.full
    clock.now_s = 2**40
    assert list(room(again).drop_expired().discarded) == [(LOG, 1)]
    again.close()


# On the wire.


def unfinished(request_id: int, author: KeyPair, size: int, sent: int) -> bytes:
    """The first entry of a log, and the beginning of its payload."""
    entry_bytes = sign_entry(
        author, 0, 1, bytes(size), skiplink=None, backlink=None, end_of_log=False, flavour=YAMF
    )
    held_entry = HeldEntry(decode_entry(entry_bytes, YAMF), entry_bytes, YAMF.hash(entry_bytes))
    return (
        encode_data(Switch(request_id))
        + encode_metadata(held_entry, with_backlink=False)
        + encode_data(RawPayload(sent))
        + bytes(sent)
    )


async def test_a_stranger_whose_payloads_never_become_whole_stops_itself_alone(tmp_path: Path) -> None:
    async with (
        brokerless_edge(tmp_path / "edge", max_spool_bytes=4_194_304) as edge,
        edge.flavour.peer.listen(HERE) as url,
        BambooPeer.open(tmp_path / "honest", flavour=YAMF) as honest,
    ):
        peer = edge.flavour.peer
        async with hostile_channels((url.host, url.port), private_key=STRANGER) as channels:
            await until(lambda: peer.remotes)
            (stranger,) = peer.remotes.values()
            for number, author in enumerate(AUTHORS):
                await channels.write(CONTROL, open_proposal(2 * number, author))
            for number in (0, 1):
                await channels.write(DATA, unfinished(2 * number, AUTHORS[number], 700_000, 600_000))
            await until(lambda: edge.flavour.sizes.full_shares)
            taken = await peer.read(lambda store: store.shares.bytes_of(stranger.principal))
            await channels.write(DATA, unfinished(4, AUTHORS[2], 1_000, 10))
            await honest.publish(AUTHORS[0], 1, bytes(900_000))
            log = (AUTHORS[0].public_key, 1)
            async with honest.connect(url) as remote:
                await honest.ask(remote, FollowedLog(log, direction=Direction.PUSH))
                await until_held(peer, log, 1)
            assert stranger.is_held_back
            assert await peer.read(lambda store: store.shares.bytes_of(stranger.principal)) == taken
            assert await peer.read(lambda store: not store.entries(LAST))
        # It comes again, and finds room for what it may finish yet.
        await stranger.ended.wait()
        await until(lambda: not edge.flavour.sizes.full_shares)
        async with hostile_channels((url.host, url.port), private_key=STRANGER) as channels:
            await channels.write(CONTROL, open_proposal(0, AUTHORS[2]))
            await channels.write(DATA, unfinished(0, AUTHORS[2], 1_000, 1_000))
            await until_held(peer, LAST, 1)


async def test_who_comes_again_with_a_full_share_brings_not_a_byte(tmp_path: Path) -> None:
    settings = BambooPeerSettings(max_spool_bytes=4_096, spool_timeout_s=0.0)
    async with (
        BambooPeer.open(tmp_path, flavour=YAMF, settings=settings) as peer,
        peer.listen(HERE) as url,
        hostile_channels((url.host, url.port), private_key=STRANGER),
    ):
        await until(lambda: peer.remotes)
        principal = next(iter(peer.remotes.values())).principal
    store = FolderStore(tmp_path, YAMF, max_spool_bytes=4_096)
    for seq_num in (1, 2):
        bring(store, principal, seq_num, 0, 512)
    store.commit()
    store.close()
    async with (
        BambooPeer.open(tmp_path, flavour=YAMF, settings=settings) as peer,
        peer.listen(HERE) as url,
        hostile_channels((url.host, url.port), private_key=STRANGER) as channels,
    ):
        await until(lambda: peer.remotes)
        (remote,) = peer.remotes.values()
        await channels.write(CONTROL, open_proposal(0, AUTHORS[1]))
        await channels.write(DATA, unfinished(0, AUTHORS[1], 100, 100))
        await remote.ended.wait()
        assert isinstance(remote.session.error, LimitReached)
        assert await peer.read(lambda store: not store.entries(FURTHER))
        # With its last connection the older part went, so that the next one goes on.
        assert await peer.read(lambda store: list(store.partial_payloads(LOG))) == [2]
