"""Offsets of all topics of the catalogue, and whether this user may read them. Blocking: for one thread."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, OffsetSpec  # type: ignore[attr-defined]

from culm_infra.console.overview.rates import Rates
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import owner
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.cluster import await_brokers
from culm_topics.topic_spec import TopicSpec

_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_REACH_S: Final = 3.0
_ANSWER_S: Final = 10.0
_ATTEMPTS: Final = 4
_RETRY_S: Final = 0.25
_DESCRIBED_FOR_S: Final = 20.0
_NO_RIGHTS: Final = "this user may not read it: `culm topics acls --program operator` lists the rights"
_ABSENT: Final = "does not exist: `culm topics create` creates it"


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as the broker describes it; without partitions if it is absent or hidden from this user."""

    partitions: int
    is_readable: bool
    detail: str | None

    @property
    def is_absent(self) -> bool:
        """Return whether the broker has no such topic."""
        return self.detail == _ABSENT


class TopicPoller:
    """Reads the offsets of all topics with one client."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._client: Any = None
        self._described: Mapping[str, _Topic] = {}
        self._starts: Mapping[TopicPartition, int] = {}
        self._described_s: float | None = None
        self._rates = Rates()

    def read(self) -> list[dict[str, Any]]:
        """Return the topics as the API has them, those with problems first.

        Raises `KafkaFailure` if the cluster does not answer.
        """
        if self._client is None:
            self._client = clients.admin(self._kafka)
        await_brokers(self._client, _REACH_S)
        now_s = time.monotonic()
        if self._described_s is None or now_s - self._described_s > _DESCRIBED_FOR_S:
            self._described = self._describe()
            self._starts, _ = self._offsets(_EARLIEST)
            self._described_s = now_s
        ends, failed = self._offsets(_LATEST)
        end_sums = _by_topic(ends)
        self._rates.add(time.monotonic(), end_sums)
        start_sums = _by_topic(self._starts)
        shown = [
            self._document(spec, start_sums, end_sums, failed.get(self._kafka.topic(spec.name)))
            for spec in self._shown()
        ]
        return sorted(shown, key=lambda topic: (-topic["severity"], topic["name"]))

    def _shown(self) -> Iterable[TopicSpec]:
        """Return the topics that exist, and those of protocols of which others exist."""
        present = {
            owner(spec) for spec in CATALOGUE if not self._described[self._kafka.topic(spec.name)].is_absent
        }
        return [spec for spec in CATALOGUE if owner(spec) in present or not present]

    def _document(
        self, spec: TopicSpec, starts: Mapping[str, int], ends: Mapping[str, int], failure: str | None
    ) -> dict[str, Any]:
        name = self._kafka.topic(spec.name)
        topic = self._described[name]
        end = ends.get(name) if failure is None else None
        detail = topic.detail or failure
        severity = 0
        if detail is not None:
            severity = 1 if not topic.is_readable else 2
        return {
            "name": name,
            "partitions": topic.partitions,
            "records": None if end is None else max(0, end - starts.get(name, 0)),
            "records_per_s": self._rates.of(name),
            "readable": topic.is_readable,
            "detail": detail,
            "severity": severity,
        }

    def _describe(self) -> dict[str, _Topic]:
        names = [self._kafka.topic(spec.name) for spec in CATALOGUE]
        futures = self._client.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=_ANSWER_S
        )
        return {name: _described(future) for name, future in futures.items()}

    def _offsets(self, which: Any) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Return an offset of each partition, and the failures by topic."""
        missing = [
            TopicPartition(name, partition)
            for name, topic in self._described.items()
            for partition in range(topic.partitions)
        ]
        offsets: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, str] = {}
        for attempt in range(_ATTEMPTS):
            if attempt:
                # A leader that moves is not known for a moment.
                time.sleep(_RETRY_S)
                await_brokers(self._client, _REACH_S)
            failed = self._ask(missing, which, offsets)
            missing = list(failed)
            if not missing:
                break
        return offsets, {
            place.topic: f"partition {place.partition}: {text}" for place, text in failed.items()
        }

    def _ask(
        self, places: Sequence[TopicPartition], which: Any, offsets: dict[TopicPartition, int]
    ) -> dict[TopicPartition, str]:
        """Add the offsets of partitions; returns the failures."""
        failed: dict[TopicPartition, str] = {}
        if not places:
            return failed
        futures = self._client.list_offsets(dict.fromkeys(places, which), request_timeout=_ANSWER_S)
        for place, future in futures.items():
            try:
                offsets[place] = future.result(_ANSWER_S).offset
            except (KafkaException, TimeoutError) as error:
                failed[place] = _text(error)
        return failed


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, int]:
    """Return the sums of the offsets of each topic's partitions."""
    sums: dict[str, int] = {}
    for partition, offset in offsets.items():
        sums[partition.topic] = sums.get(partition.topic, 0) + offset
    return sums


def _described(future: Any) -> _Topic:
    try:
        description = future.result(_ANSWER_S)
    except (KafkaException, TimeoutError) as error:
        code = error.args[0].code() if isinstance(error, KafkaException) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return _Topic(0, True, _ABSENT)
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return _Topic(0, False, _NO_RIGHTS)
        return _Topic(0, True, _text(error))
    allowed = description.authorized_operations
    is_readable = allowed is None or AclOperation.READ in allowed or AclOperation.ALL in allowed
    return _Topic(len(description.partitions), is_readable, None if is_readable else _NO_RIGHTS)


def _text(error: BaseException) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else "no answer in time"
