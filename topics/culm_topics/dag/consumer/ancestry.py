"""The ancestry of publishes: the priors in `dag.publishes`; some 250 bytes of memory per publish.

A publish names its prior in the bytes that its CID covers, so a record is correct even if the publish was
refused. The job's output was in `dag.publishes` before, so a reader that has read that topic to its end knows
enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.errors import DagError
from culm_topics.dag.records import decode_publish_record
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.partitions import TopicPartitions, read_through

PUBLISHES_TOPIC: Final = "dag.publishes"
_BATCH_RECORDS: Final = 200


class PublishAncestry:
    """Follows partitions of `dag.publishes`. Raises `TopicMissing`, `KafkaFailure`."""

    def __init__(self, settings: KafkaSettings, wanted: Callable[[bytes], bool]) -> None:
        self._wanted = wanted
        self._priors: dict[bytes, bytes | None] = {}
        self._reader = TopicPartitions(settings, PUBLISHES_TOPIC)
        self._is_reading = False
        self.passed_over = PassedOver(PUBLISHES_TOPIC)
        """Malformed records."""

    def catch_up(self) -> None:
        """Read to the present end."""
        if not self._is_reading:
            self._reader.assign(self._reader.starts())
            self._is_reading = True
        for messages in read_through(self._reader, self._reader.ends(), max_records=_BATCH_RECORDS):
            for message in messages:
                if not self._wanted(message.key):
                    continue
                try:
                    _, record = decode_publish_record(message.key, message.value)
                    prior = _prior_of(record.data)
                except (RecordError, DagError) as error:
                    self.passed_over.add(message, error)
                    continue
                self._priors[record.cid.raw] = prior

    def builds_on(self, new: Cid, old: Cid) -> bool:
        """Whether `old` is `new` or an ancestor of it, as far as records were read."""
        at: bytes | None = new.raw
        while at is not None and at != old.raw:
            at = self._priors.get(at)
        return at is not None

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


def _prior_of(data: bytes) -> bytes | None:
    value = decode_dag_cbor(data)
    prior = value.get("prior") if isinstance(value, dict) else None
    return prior.raw if isinstance(prior, Cid) else None
