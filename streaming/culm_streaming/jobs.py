"""The jobs by name: which topics each reads and writes. Light to import: no Spark."""

from dataclasses import dataclass
from typing import Final, Literal

from culm_topics.kafka import KafkaSettings

Job = Literal["logs", "version-vectors", "blocks", "sds", "sds-index"]
JOBS: Final[tuple[Job, ...]] = ("logs", "version-vectors", "blocks")
"""The jobs of p2panda, which run by default."""
SDS_JOBS: Final[tuple[Job, ...]] = ("sds", "sds-index")


@dataclass(frozen=True, slots=True)
class JobTopics:
    """Topics by their names in the catalogue; `stateful` jobs have a state store of a fixed layout."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    stateful: bool = True

    def full_names(self, kafka: KafkaSettings) -> tuple[str, ...]:
        """Every topic of the job in this deployment, sorted."""
        return tuple(sorted(kafka.topic(name) for name in {*self.reads, *self.writes}))


TOPICS: Final[dict[Job, JobTopics]] = {
    "logs": JobTopics(("entries",), ("logs", "rejected")),
    "version-vectors": JobTopics(("logs", "receipts"), ("version-vectors", "rejected")),
    "blocks": JobTopics(("logs", "receipts"), ("blocks", "block-vectors", "rejected")),
    "sds": JobTopics(
        ("sds.in", "sds.commands"),
        ("sds.messages", "sds.out", "sds.events", "sds.fetch", "sds.acks", "sds.owners", "rejected"),
    ),
    "sds-index": JobTopics(("sds.messages",), ("sds.index", "rejected"), stateful=False),
}
