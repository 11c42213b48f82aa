"""Signed Bamboo logs to transfer, and two ends in memory that exchange bytes."""

from __future__ import annotations

import random

from culm_connectors.bamboo_p2p.signatures import verify_in_threads
from culm_models.bamboo.entry import decode_entry, lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YASMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import Peer
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author of the benchmark")
LOG: LogKey = (AUTHOR.public_key, 0)


def made_log(count: int, payload_bytes: int) -> list[tuple[HeldEntry, bytes]]:
    """Make entries 1 to `count` of `LOG`, with payloads that do not compress."""
    made = random.Random(15)
    log: list[tuple[HeldEntry, bytes]] = []
    for seq_num in range(1, count + 1):
        payload = made.randbytes(payload_bytes)
        entry_bytes = sign_entry(
            AUTHOR,
            LOG[1],
            seq_num,
            payload,
            backlink=log[-1][0].hash if log else None,
            skiplink=log[lipmaa(seq_num) - 1][0].hash if needs_skiplink(seq_num) else None,
        )
        log.append((HeldEntry(decode_entry(entry_bytes), entry_bytes, YASMF.hash(entry_bytes)), payload))
    return log


class TwoEnds:
    """Two ends with stores in memory; the first one is proactive."""

    def __init__(self, settings: BambooSettings | None = None) -> None:
        self.peers = [
            Peer(MemoryBambooStore(YASMF), settings or BambooSettings(), verify_signatures=verify_in_threads)
            for _ in range(2)
        ]
        self.ends: list[BambooConnection] = [
            peer.connect("other", is_proactive=index == 0, now_ms=0) for index, peer in enumerate(self.peers)
        ]
        self.data_bytes = 0

    def talk(self) -> None:
        """Carry bytes both ways until nothing is left to send."""
        while any([self._carry(0), self._carry(1)]):
            pass

    def _carry(self, sender: int) -> bool:
        end, other = self.ends[sender], self.ends[1 - sender]
        self.peers[sender].settle()
        data = end.next_data()
        control = end.take_control()
        if control:
            other.receive_control(control, 0)
        if data:
            self.data_bytes += len(data)
            other.receive_all_data(data, 0)
        self.peers[1 - sender].settle()
        for link in (end, other):
            link.take_events()
            assert link.dropped is None, link.dropped
        return bool(control or data)
