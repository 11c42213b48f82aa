"""Records for the topic `rejected`: refused data from peers and topics, with codes and origins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from culm_connectors.dag.service import BlockTaken
from culm_connectors.edge.feed import RefusedRecord
from culm_connectors.kafka import ProducerRecord
from culm_connectors.kafka.backlog import Backlog, BatchSender
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import AckStatus
from culm_topics.dag.records import dag_rejection
from culm_topics.kafka.clients import KafkaSettings

_MAX_WAITING: Final = 10_000
_MAX_WAITING_BYTES: Final = 8 * 1024 * 1024


class DagRefusals:
    """Writes to `rejected`; `counts` are refusals of peers' data, by code."""

    def __init__(self, sender: BatchSender, kafka: KafkaSettings) -> None:
        self.counts: Counter[str] = Counter()
        self._sender = sender
        self._waiting = Backlog(_MAX_WAITING, _MAX_WAITING_BYTES)
        sender.add(kafka.topic("rejected"), self._waiting.take)

    def blocks(self, taken: Sequence[BlockTaken], blocks: Sequence[bytes], peer: bytes) -> None:
        """Report those blocks of a peer that were refused for the first time."""
        for block_taken, block in zip(taken, blocks, strict=True):
            outcome = block_taken.outcome
            if outcome.status is AckStatus.REFUSED and block_taken.is_news:
                detail = "a node or UCAN that breaks a rule"
                self._add(outcome.cid, outcome.code or "", detail, data=block, peer=peer)

    def shard(self, shard: Cid, code: str, peer: bytes) -> None:
        """Report a complete shard from a peer that is malformed or does not match its CID."""
        self._add(shard, code, "a shard that breaks a rule", peer=peer)

    def violation(self, code: str, detail: str, peer: bytes) -> None:
        """Report the violation for which a peer's connection was ended."""
        self._add(None, code, detail, peer=peer)

    def record(self, refused: RefusedRecord) -> None:
        """Report a record of a topic that is malformed, or whose content is."""
        error = refused.error
        key, record = dag_rejection(None, error.code, str(error), data=refused.value, source=refused.source)
        self._send(ProducerRecord(key=key, value=record.encode()))

    def _add(
        self, cid: Cid | None, code: str, detail: str, *, peer: bytes, data: bytes | None = None
    ) -> None:
        self.counts[code] += 1
        key, record = dag_rejection(cid, code, detail, data=data, peer=peer)
        self._send(ProducerRecord(key=key, value=record.encode()))

    def _send(self, record: ProducerRecord) -> None:
        if not self._waiting.add(record):
            self._sender.dropped["rejected"] += 1
