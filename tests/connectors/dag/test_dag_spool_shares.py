"""What has come of shards counts, by peer, address and in all: announcing takes up nothing (R34)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import MIB, DagFolderSettings
from culm_connectors.edge.fair_turns import calling
from culm_models.dag.blocks.cid import CAR, Cid, cid_of
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.scenario import SPACES

SPACE = SPACES[0]
FULL = NotReserved(AckStatus.LATER, "dag.spool_full")
CHUNK = bytes(CHUNK_SIZE)
SIZE = 2 * CHUNK_SIZE


def shard(number: int) -> Cid:
    return cid_of(CAR, number.to_bytes(4, "big"))


def key(number: int) -> bytes:
    return (number + 1).to_bytes(32, "big")


@contextmanager
def opened(path: Path, **settings: Any) -> Iterator[DagFolder]:
    now = iter(range(10**6))
    folder = DagFolder(path / "dags", DagFolderSettings(**settings), create=True, clock_s=lambda: next(now))
    try:
        yield folder
    finally:
        folder.close()


def bring(folder: DagFolder, peer: int, number: int, address: str = "10.0.0.1") -> bool:
    """The first of two chunks of a shard; whether it is kept."""
    with calling(address, key(peer).hex()):
        if folder.reserve(key(peer), SPACE, shard(number), SIZE) != Reserved(0):
            return False
        return folder.spool(key(peer), shard(number), 0, CHUNK)


def held(folder: DagFolder, peers: int, shards: int) -> set[tuple[int, int]]:
    """Which spools there are, by peer and shard."""
    pairs = ((peer, number) for peer in range(peers) for number in range(shards))
    return {pair for pair in pairs if folder.spooled(key(pair[0]), shard(pair[1])) is not None}


def test_offers_of_which_nothing_comes_keep_nobody_out(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        for peer in range(17):
            for number in range(8):
                reserved = folder.reserve(key(peer), SPACE, shard(100 * peer + number), 128 * MIB)
                assert reserved == Reserved(0)
        folder.commit()
        assert folder.reserve(key(99), SPACE, shard(9_999), 128 * MIB) == Reserved(0)


def test_a_spool_of_which_nothing_has_come_is_released_and_another_one_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.reserve(key(0), SPACE, shard(0), SIZE)
        bring(folder, 0, 1)
        for number in range(2):
            folder.release(key(0), shard(number))
        assert held(folder, 1, 2) == {(0, 1)}
        assert folder.reserve(key(0), SPACE, shard(1), SIZE) == Reserved(1)


def test_what_came_counts_for_a_peer(tmp_path: Path) -> None:
    with opened(tmp_path, max_spool_bytes_per_peer=3 * CHUNK_SIZE) as folder:
        assert bring(folder, 0, 0) and bring(folder, 0, 1)
        assert folder.reserve(key(0), SPACE, shard(2), SIZE) == FULL
        assert folder.spool(key(0), shard(0), CHUNK_SIZE, CHUNK)
        # Both were begun, and there is no capacity for all of both.
        assert not folder.spool(key(0), shard(1), CHUNK_SIZE, CHUNK)
        assert bring(folder, 1, 2)


def test_at_an_address_the_peer_that_has_most_gives_up_its_oldest(tmp_path: Path) -> None:
    with opened(tmp_path, max_spool_bytes_per_address=4 * CHUNK_SIZE) as folder:
        assert all(bring(folder, 0, number) for number in range(3))
        assert bring(folder, 1, 0)
        assert held(folder, 2, 3) == {(0, 1), (0, 2), (1, 0)}
        assert bring(folder, 2, 0)
        # Who would have more than anybody else waits.
        assert not bring(folder, 3, 0)
        assert bring(folder, 3, 0, "10.0.0.2")


def test_in_all_the_address_that_has_most_gives_up_its_oldest(tmp_path: Path) -> None:
    with opened(tmp_path, max_spool_bytes=6 * CHUNK_SIZE) as folder:
        assert all(bring(folder, peer, peer) for peer in range(5))
        assert bring(folder, 9, 0, "10.0.0.2")
        assert bring(folder, 9, 1, "10.0.0.2")
        assert held(folder, 10, 5) == {(2, 2), (3, 3), (4, 4), (9, 0), (9, 1)}
        assert not folder.spool(key(0), shard(0), CHUNK_SIZE, CHUNK)


def test_of_further_spools_than_there_may_be_those_go_first_of_which_nothing_came(tmp_path: Path) -> None:
    with opened(tmp_path, peer_spools=2, spools=3) as folder:
        bring(folder, 0, 0)
        for number in (1, 2):
            assert folder.reserve(key(0), SPACE, shard(number), 1) == Reserved(0)
        assert held(folder, 1, 3) == {(0, 0), (0, 2)}
        for peer in (1, 2):
            assert folder.reserve(key(peer), SPACE, shard(3), 1) == Reserved(0)
        assert held(folder, 3, 4) == {(0, 0), (1, 3), (2, 3)}
        for peer, number in ((1, 3), (2, 3)):
            assert folder.spool(key(peer), shard(number), 0, b"x")
        assert folder.reserve(key(3), SPACE, shard(4), 1) == FULL


def test_what_an_address_has_brought_is_known_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        assert bring(folder, 0, 0) and bring(folder, 1, 1)
        folder.commit()
    with opened(tmp_path, max_spool_bytes_per_address=3 * CHUNK_SIZE) as folder:
        assert not bring(folder, 2, 2)
        assert bring(folder, 2, 2, "10.0.0.2")
