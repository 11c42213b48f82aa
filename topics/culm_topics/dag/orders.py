"""Orders of publishes, built from the records of `dag.order`: each gives the order from a position on.

The topic deletes old records, so a late reader may not know the beginning of an order. A reader that needs
all of it reads `dag.publishes`, which is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_topics.dag.records import OrderRecord, id_of_key
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.partitions import read_to_end

ORDER_TOPIC: Final = "dag.order"


@dataclass(slots=True)
class KnownOrder:
    """The known order of one id: `links`, the first of them at position `start`."""

    start: int = 0
    links: list[Cid] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether it is known from the first publish on."""
        return self.start == 0

    @property
    def length(self) -> int:
        """Number of publishes in the order, including unknown ones."""
        return self.start + len(self.links)

    def take(self, record: OrderRecord) -> None:
        """Apply the next record of the id. If it begins after the known end, earlier links are dropped."""
        if self.start <= record.position <= self.length:
            del self.links[record.position - self.start :]
        else:
            self.start = record.position
            self.links.clear()
        self.links += record.links


def read_orders(
    settings: KafkaSettings, ids: Collection[bytes] | None = None
) -> tuple[dict[bytes, KnownOrder], PassedOver]:
    """Return the present orders of these ids, or of all, and the skipped malformed records.

    Raises `TopicMissing`, `KafkaFailure`.
    """
    orders: dict[bytes, KnownOrder] = {}
    passed_over = PassedOver(ORDER_TOPIC)
    for message in read_to_end(settings, ORDER_TOPIC):
        try:
            id, record = id_of_key(ORDER_TOPIC, message.key), OrderRecord.decode(message.value)
        except RecordError as error:
            passed_over.add(message, error)
            continue
        if ids is None or id in ids:
            orders.setdefault(id, KnownOrder()).take(record)
    return orders, passed_over
