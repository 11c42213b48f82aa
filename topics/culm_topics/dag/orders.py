"""Orders of publishes, as the records of `dag.order` make them: from this position on it is these.

The topic forgets what is old, so the beginning of an order may be unknown to who reads it late; whoever needs
all of it reads `dag.publishes`, which does not forget.
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
    """What records told so far of the order of one id: `links`, the first of them at position `start`."""

    start: int = 0
    links: list[Cid] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether it is known from the first publish on."""
        return self.start == 0

    @property
    def length(self) -> int:
        """How many publishes there are in the order, those that are not known counted."""
        return self.start + len(self.links)

    def take(self, record: OrderRecord) -> None:
        """The next record of the id. One that begins behind the known end: what was before is lost."""
        if self.start <= record.position <= self.length:
            del self.links[record.position - self.start :]
        else:
            self.start = record.position
            self.links.clear()
        self.links += record.links


def read_orders(
    settings: KafkaSettings, ids: Collection[bytes] | None = None
) -> tuple[dict[bytes, KnownOrder], PassedOver]:
    """The orders of these ids, or of all, as they are now; and what was passed over since it is no record.

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
