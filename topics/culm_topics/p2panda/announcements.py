"""The present contents of `announcements`: the schemas and the offer of each peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from culm_models.errors import CulmError
from culm_models.lifts import LIFTS
from culm_models.p2panda.wire.codec import decode
from culm_models.p2panda.wire.messages import Announce, Offer, split_offer
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end

ANNOUNCEMENTS_TOPIC = "announcements"


@dataclass(frozen=True, slots=True)
class PeerAnnouncement:
    """The schemas that a peer wants to replicate, and its offer; None if it has sent no offer."""

    timestamp: int
    schema_ids: tuple[str, ...]
    offer: Offer | None

    @property
    def offered(self) -> dict[str, Any] | None:
        """The modes and lifts that the peer offers, with the names of lifts; None if it has sent no offer."""
        if self.offer is None:
            return None
        names = {lift.code: lift.name for lift in LIFTS}
        return {
            "modes": sorted(self.offer.modes),
            "lifts": [names.get(code, str(code)) for code in sorted(self.offer.lifts)],
            "compact": self.offer.compact,
        }

    @classmethod
    def decode(cls, value: bytes) -> PeerAnnouncement:
        """Read a record of `announcements`. Raises `RecordError` if it is malformed."""
        try:
            message = decode(value)
        except CulmError as error:
            raise RecordError(f"announcements: {error}") from error
        if not isinstance(message, Announce):
            raise RecordError(f"announcements: {type(message).__name__} is not an Announce message")
        return cls(message.timestamp, *split_offer(message.schema_ids))

    def replaces(self, former: PeerAnnouncement | None) -> bool:
        """Whether it is the later one: it may come before an earlier one in the topic."""
        return former is None or former.timestamp < self.timestamp


def read_announcements(settings: KafkaSettings) -> dict[bytes, PeerAnnouncement]:
    """Return each peer's latest announcement; malformed ones are ignored.

    Raises `TopicMissing`, `KafkaFailure`.
    """
    latest: dict[bytes, PeerAnnouncement] = {}
    for message in read_to_end(settings, ANNOUNCEMENTS_TOPIC):
        if not message.value:
            latest.pop(message.key, None)
            continue
        try:
            announced = PeerAnnouncement.decode(message.value)
        except RecordError:
            continue
        if announced.replaces(latest.get(message.key)):
            latest[message.key] = announced
    return latest
