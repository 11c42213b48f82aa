"""Which payloads may be dropped from the folder of an edge: those that Kafka has, and nothing here needs."""

from __future__ import annotations

from culm_connectors.bamboo_p2p.edge.log_kinds import LogKind, LogKinds
from culm_connectors.bamboo_p2p.edge.outbox import KafkaOutbox
from culm_connectors.bamboo_p2p.edge.tables import EdgeTables
from culm_models.bamboo.hashes import YAMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.records import log_key


class DroppablePayloads:
    """Says so of the payloads of one folder."""

    def __init__(
        self, tables: EdgeTables, outbox: KafkaOutbox, kinds: LogKinds, flavour: HashFlavour
    ) -> None:
        self._tables = tables
        self._outbox = outbox
        self._kinds = kinds
        self._flavour = flavour

    def may_drop(self, log: LogKey, seq_num: int) -> bool:
        """Whether nobody misses the payload but those who ask for it here."""
        if self._tables.is_waiting(log_key(*log, self._flavour), seq_num):
            return False
        if self._flavour is YAMF:
            return True
        # The first payload tells whose log it is, and p2panda's go to `entries` with their payloads alone.
        is_published = self._kinds.of(log) is not LogKind.OPERATIONS or seq_num <= self._outbox.published(log)
        return seq_num > 1 and is_published
