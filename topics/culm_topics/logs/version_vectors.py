"""The present contents of `version-vectors`: how far every peer is known to hold every log."""

from dataclasses import dataclass, field

from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import VersionVectorRecord
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.partitions import read_to_end
from culm_topics.records import HEIGHTS_PEER_ID, split_version_vector_key

Log = tuple[bytes, int]
"""(public key, log id)."""


@dataclass(slots=True)
class Vectors:
    """Sequence numbers by peer id and log; under `HEIGHTS_PEER_ID` are the heights of the logs themselves."""

    by_peer: dict[bytes, dict[Log, int]] = field(default_factory=dict)
    passed_over: PassedOver = field(default_factory=lambda: PassedOver("version-vectors"))

    @property
    def heights(self) -> dict[Log, int]:
        """The height of every replicated log."""
        return self.by_peer.get(HEIGHTS_PEER_ID, {})

    def height(self, peer_id: bytes, log: Log) -> int:
        """Return the highest sequence number that the peer is known to hold."""
        return self.by_peer.get(peer_id, {}).get(log, 0)

    def logs_of(self, peer_id: bytes) -> int:
        """Return the number of logs of which the peer is known to hold something."""
        return len(self.by_peer.get(peer_id, {}))


def read_vectors(settings: KafkaSettings) -> Vectors:
    """Read the topic to its end; the last record of a key counts, and an empty value removes.

    `Malformed` records are skipped. Raises `TopicMissing`, `KafkaFailure`.
    """
    vectors = Vectors()
    for message in read_to_end(settings, "version-vectors"):
        try:
            peer_id, public_key, log_id = split_version_vector_key(message.key)
            seq_num = VersionVectorRecord.decode(message.value).seq_num if message.value else None
        except RecordError as error:
            vectors.passed_over.add(message, error)
            continue
        heights = vectors.by_peer.setdefault(peer_id, {})
        if seq_num is None:
            heights.pop((public_key, log_id), None)
        else:
            heights[public_key, log_id] = seq_num
    return vectors
