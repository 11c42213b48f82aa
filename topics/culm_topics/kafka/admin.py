"""Creates, lists and checks the deployment's topics against the catalogue.

`create` only adds missing topics. It never alters a topic: partitions of a topic keyed by log cannot be
changed without breaking the order of its logs, and a property that differs may have been set on purpose.
`check` reports exactly what differs.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.errors import UNREACHABLE_HINT, KafkaFailure
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.cluster import await_brokers
from culm_topics.topic_spec import TopicSpec

DEFAULT_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.05
_BROKERS_DEFAULT = -1
_MIN_INSYNC = "min.insync.replicas"
_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic of the catalogue as the broker reports it; `partitions` is 0 if it does not exist."""

    name: str
    full_name: str
    topic_id: str | None
    partitions: int
    replicas: int

    @property
    def exists(self) -> bool:
        """Whether the broker knows the topic."""
        return self.partitions > 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a topic and the catalogue; `key` is the topic property for kind `config`."""

    topic: str
    kind: Literal["missing", "partitions", "replication", "config"]
    key: str | None
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.topic}: does not exist"
        what = self.key if self.kind == "config" else self.kind
        return f"{self.topic}: {what} is {self.found}, the catalogue says {self.expected}"


@dataclass(frozen=True, slots=True)
class Durability:
    """The number of copies of a topic, and the number that must store a record before it is acknowledged.

    `brokers` is the number of brokers available for the copies; `min_insync_replicas` is None if it was not
    queried.
    """

    topic: str
    replicas: int
    brokers: int
    min_insync_replicas: int | None = None

    @property
    def risk(self) -> str | None:
        """Description of an avoidable consequence of losing one broker, or None."""
        if self.brokers < 2:
            return None
        if self.replicas == 1:
            return (
                f"{self.topic}: one copy on {self.brokers} brokers: one that is lost takes records along. "
                "Three copies are usual (--replication-factor 3, or default.replication.factor); "
                "those of an existing topic are changed with kafka-reassign-partitions.sh"
            )
        if self.min_insync_replicas == 1:
            return (
                f"{self.topic}: {_MIN_INSYNC} is 1 of {self.replicas}: a record may be acknowledged that one "
                "broker alone has. 2 is usual"
            )
        if self.min_insync_replicas is not None and self.min_insync_replicas >= self.replicas:
            return (
                f"{self.topic}: {_MIN_INSYNC} is {self.min_insync_replicas} of {self.replicas}: nothing is "
                "written while one broker is away"
            )
        return None


def create(
    settings: KafkaSettings,
    topics: Sequence[TopicSpec] = CATALOGUE,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[str, ...]:
    """Create the topics that do not exist yet; returns their full names.

    Safe to repeat and to run concurrently. Returns when every topic can be written. Raises `KafkaFailure`
    with the topic that failed and the reason.
    """
    client = kafka.admin(settings)
    deadline = time.monotonic() + timeout_seconds
    known = _existing(client, timeout_seconds)
    missing = [topic for topic in topics if settings.topic(topic.name) not in known]
    created: list[str] = []
    if missing:
        futures = client.create_topics(
            [
                NewTopic(
                    settings.topic(topic.name),
                    num_partitions=settings.partitions_of(topic),
                    replication_factor=settings.replication_factor or _BROKERS_DEFAULT,
                    config=settings.config_of(topic),
                )
                for topic in missing
            ],
            operation_timeout=timeout_seconds,
        )
        for name, future in futures.items():
            if _created(name, future, timeout_seconds):
                created.append(name)
    _await_leaders(client, [settings.topic(topic.name) for topic in topics], deadline)
    return tuple(created)


def list_topics(
    settings: KafkaSettings,
    topics: Sequence[TopicSpec] = CATALOGUE,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[TopicState, ...]:
    """Return every topic of the catalogue with its full name and its state on the broker."""
    client = kafka.admin(settings)
    described = describe(client, [settings.topic(topic.name) for topic in topics], timeout_seconds)
    states: list[TopicState] = []
    for topic in topics:
        full_name = settings.topic(topic.name)
        description = described[full_name]
        if description is None:
            states.append(TopicState(topic.name, full_name, None, 0, 0))
            continue
        replicas = min((len(partition.replicas) for partition in description.partitions), default=0)
        states.append(
            TopicState(
                topic.name, full_name, str(description.topic_id), len(description.partitions), replicas
            )
        )
    return tuple(states)


def check(
    settings: KafkaSettings,
    topics: Sequence[TopicSpec] = CATALOGUE,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[Difference, ...]:
    """Return all differences between the broker's topics and the catalogue."""
    differences: list[Difference] = []
    existing: list[TopicSpec] = []
    for topic, state in zip(
        topics, list_topics(settings, topics, timeout_seconds=timeout_seconds), strict=True
    ):
        if not state.exists:
            differences.append(Difference(state.full_name, "missing", None, None, None))
            continue
        existing.append(topic)
        for kind, expected, actual in (
            ("partitions", settings.partitions_of(topic), state.partitions),
            ("replication", settings.replication_factor, state.replicas),
        ):
            if expected not in (None, actual):
                differences.append(
                    Difference(
                        state.full_name,
                        "partitions" if kind == "partitions" else "replication",
                        None,
                        str(expected),
                        str(actual),
                    )
                )
    return (*differences, *_config_differences(settings, existing, timeout_seconds))


def durability(
    settings: KafkaSettings,
    topics: Sequence[TopicSpec] = CATALOGUE,
    *,
    with_config: bool = True,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[Durability, ...]:
    """Return the durability of each existing topic.

    `with_config` needs the right to describe configurations.
    """
    states = list_topics(settings, topics, timeout_seconds=timeout_seconds)
    existing = {state.full_name: state.replicas for state in states if state.exists}
    client = kafka.admin(settings)
    try:
        brokers = len(client.list_topics(timeout=timeout_seconds).brokers)
    except KafkaException as error:
        raise _failure("counting brokers", error) from error
    configs = _configs(client, tuple(existing), timeout_seconds) if with_config else {}
    return tuple(
        Durability(name, replicas, brokers, int(configs[name][_MIN_INSYNC]) if name in configs else None)
        for name, replicas in existing.items()
    )


def describe(client: AdminClient, full_names: Iterable[str], timeout_seconds: float) -> dict[str, Any]:
    """Return the broker's description of each topic, by full name; None for a topic that does not exist."""
    names = list(full_names)
    if not names:
        return {}
    descriptions: dict[str, Any] = {}
    await_brokers(client, timeout_seconds)
    futures = client.describe_topics(TopicCollection(names), request_timeout=timeout_seconds)
    for name, future in futures.items():
        try:
            descriptions[name] = future.result(timeout_seconds)
        except (KafkaException, TimeoutError) as error:
            if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _failure(f"describing topic {name}", error) from error
            descriptions[name] = None
    return descriptions


def _config_differences(
    settings: KafkaSettings, topics: Sequence[TopicSpec], timeout_seconds: float
) -> list[Difference]:
    configs = _configs(
        kafka.admin(settings), [settings.topic(topic.name) for topic in topics], timeout_seconds
    )
    return [
        Difference(name, "config", key, expected, configs[name].get(key))
        for topic in topics
        for name in (settings.topic(topic.name),)
        for key, expected in settings.config_of(topic).items()
        if configs[name].get(key) != expected
    ]


def _configs(
    client: AdminClient, full_names: Sequence[str], timeout_seconds: float
) -> dict[str, dict[str, str]]:
    """Return the properties of topics, by their full names."""
    if not full_names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in full_names]
    futures = client.describe_configs(resources, request_timeout=timeout_seconds)
    configs: dict[str, dict[str, str]] = {}
    for resource, future in futures.items():
        try:
            entries = future.result(timeout_seconds)
        except (KafkaException, TimeoutError) as error:
            raise _failure(f"reading the properties of topic {resource.name}", error) from error
        configs[resource.name] = {key: entry.value for key, entry in entries.items()}
    return configs


def _existing(client: AdminClient, timeout_seconds: float) -> set[str]:
    try:
        return set(client.list_topics(timeout=timeout_seconds).topics)
    except KafkaException as error:
        raise _failure("listing topics", error) from error


def _created(name: str, future: "Future[None]", timeout_seconds: float) -> bool:
    try:
        future.result(timeout_seconds)
    except (KafkaException, TimeoutError) as error:
        if _code(error) == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise _failure(f"creating topic {name}", error) from error
    return True


def _await_leaders(client: AdminClient, names: Sequence[str], deadline: float) -> None:
    """Wait until every topic has leaders: a producer would report a topic without leaders as missing."""
    while True:
        described = describe(client, names, max(deadline - time.monotonic(), 1.0))
        waiting = [
            name
            for name, description in described.items()
            if description is None or any(partition.leader is None for partition in description.partitions)
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise KafkaFailure(f"topics without a leader in time: {', '.join(waiting)}")
        time.sleep(_POLL_SECONDS)


def _failure(what: str, error: BaseException) -> KafkaFailure:
    away = isinstance(error, TimeoutError) or _code(error) in _AWAY
    passes = away or (isinstance(error, KafkaException) and error.args[0].retriable())
    return KafkaFailure(f"{what}: {_reason(error)}", passes=passes, hint=UNREACHABLE_HINT if away else None)


def _code(error: BaseException) -> int | None:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0].code()
    return None


def _reason(error: BaseException) -> str:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return f"{error.args[0].str()} ({error.args[0].name()})"
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)
