"""The identity to which offsets belong: the cluster, and each topic by the id from its creation.

A topic that is deleted and created again keeps its name and loses its past: offsets of the old topic point at
other records of the new one, or at none. Every program that keeps offsets (a checkpoint of a job, a
connector's index, a consumer's cursor) therefore keeps the `Origin` of its topics with them. It compares it
with the broker's answer before and during their use. Names are full names, so another prefix is another
origin.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from culm_topics.errors import OriginChanged, RecordError, TopicMissing
from culm_topics.kafka.admin import describe
from culm_topics.kafka.cluster import await_brokers

CREATE_HINT: Final = "create it with `culm topics create`; is the prefix right?"
_TIMEOUT_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Origin:
    """The cluster's id, and the id of each topic by its full name.

    `partition_counts` is the number of partitions that the broker reported, by topic; it is not part of the
    identity.
    """

    cluster_id: str
    topic_ids: Mapping[str, str]
    partition_counts: Mapping[str, int] = field(default_factory=dict, compare=False)

    def encode(self) -> bytes:
        """Return stable bytes of this origin: JSON with sorted names."""
        value = {"cluster_id": self.cluster_id, "topic_ids": dict(self.topic_ids)}
        return json.dumps(value, sort_keys=True).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Return the origin in these bytes. Raises `RecordError` if they are malformed."""
        try:
            value = json.loads(encoded)
            cluster_id, topic_ids = value["cluster_id"], value["topic_ids"]
        except (ValueError, LookupError, TypeError) as error:
            raise RecordError("these bytes name no cluster and no topics") from error
        if not isinstance(cluster_id, str) or not _is_text_by_name(topic_ids):
            raise RecordError("an origin is the text of a cluster's id and of each topic's id")
        return cls(cluster_id, topic_ids)

    def differences(self, current: "Origin") -> tuple[str, ...]:
        """Return the contradictions between this origin and `current`, one phrase each.

        Topics that only `current` names are no contradiction.
        """
        phrases: list[str] = []
        if self.cluster_id != current.cluster_id:
            phrases.append(f"the cluster was {self.cluster_id} and is {current.cluster_id}")
        if self.topic_ids and not self.topic_ids.keys() & current.topic_ids.keys():
            return (*phrases, f"the topics were {_named(self)} and are {_named(current)}")
        for name, topic_id in sorted(self.topic_ids.items()):
            now = current.topic_ids.get(name)
            if now is None:
                phrases.append(f"the topic {name} is no longer there")
            elif now != topic_id:
                phrases.append(f"the topic {name} was deleted and created again (id {topic_id}, now {now})")
        return tuple(phrases)

    def check(self, current: "Origin", *, what: str, remedy: str) -> None:
        """Raise `OriginChanged` if `current` differs.

        `what` names the holder of the offsets; `remedy` becomes the hint.
        """
        if phrases := self.differences(current):
            raise OriginChanged(f"{what} belongs to other topics: {'; '.join(phrases)}", hint=remedy)


def ask_origin(admin: Any, topics: Iterable[str], *, timeout_seconds: float = _TIMEOUT_SECONDS) -> Origin:
    """Query the broker for the origin of topics, by their full names, through an `AdminClient`; blocks.

    Raises `TopicMissing` with the names of topics that do not exist, and `KafkaFailure` if the broker refuses
    or does not answer in time.
    """
    names = sorted(set(topics))
    cluster_id = await_brokers(admin, timeout_seconds)
    described = describe(admin, names, timeout_seconds)
    if missing := [name for name in names if described[name] is None]:
        raise TopicMissing(f"topics do not exist: {', '.join(missing)}", hint=CREATE_HINT)
    return Origin(
        cluster_id,
        {name: str(described[name].topic_id) for name in names},
        {name: len(described[name].partitions) for name in names},
    )


def _named(origin: Origin) -> str:
    return ", ".join(sorted(origin.topic_ids)) or "none"


def _is_text_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
