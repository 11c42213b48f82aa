"""Logs to replicate, and two ends that talk over channels in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from culm_models.bamboo.entry import lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YAMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author")
LOG: LogKey = (AUTHOR.public_key, 7)


def payload_of(seq_num: int) -> bytes:
    """A payload of some tens of bytes; that of every fifth entry is empty."""
    return b"%d," % seq_num * (seq_num % 5 * 4)


@cache
def make_log(
    length: int,
    flavour: HashFlavour = YAMF,
    *,
    payload: Callable[[int], bytes] = payload_of,
    end_of_log: bool = False,
    log_id: int = LOG[1],
) -> tuple[NewEntry, ...]:
    """Entries 1 to `length` of one log, with their payloads."""
    hashes: dict[int, bytes] = {}
    entries = []
    for seq_num in range(1, length + 1):
        entry = sign_entry(
            AUTHOR,
            log_id,
            seq_num,
            payload(seq_num),
            backlink=hashes.get(seq_num - 1),
            skiplink=hashes[lipmaa(seq_num)] if needs_skiplink(seq_num) else None,
            end_of_log=end_of_log and seq_num == length,
            flavour=flavour,
        )
        hashes[seq_num] = flavour.hash(entry)
        entries.append(NewEntry(entry, payload(seq_num)))
    return tuple(entries)


class Pair:
    """Two ends, the first proactive, whose channels are emptied by `talk`."""

    def __init__(
        self,
        first: BambooSettings | None = None,
        second: BambooSettings | None = None,
        flavour: HashFlavour = YAMF,
    ) -> None:
        self.peers = [
            Peer(MemoryBambooStore(flavour), settings or BambooSettings()) for settings in (first, second)
        ]
        self.ends: list[BambooConnection] = [
            peer.connect("other", is_proactive=index == 0, now_ms=0) for index, peer in enumerate(self.peers)
        ]

    def talk(self) -> None:
        """Carry bytes both ways until nothing is left to say."""
        while any([self.carry(0), self.carry(1)]):
            pass

    def carry(self, sender: int) -> bool:
        """Carry what one end has to say; whether it had something."""
        peer, end, other = self.peers[sender], self.ends[sender], self.ends[1 - sender]
        peer.settle()
        control, data = end.take_control(), end.next_data()
        if control:
            other.receive_control(control, 0)
        if data:
            other.receive_all_data(data, 0)
        self.peers[1 - sender].settle()
        return bool(control or data)

    def store(self, index: int) -> MemoryBambooStore:
        """The store of one end."""
        store = self.peers[index].store
        assert isinstance(store, MemoryBambooStore)
        return store
