"""Resources of Strimzi as YAML: KafkaTopics and KafkaUsers, which it keeps in a Kafka on Kubernetes.

They are of the API version `kafka.strimzi.io/v1` (Strimzi 0.49 and newer).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from culm_topics.kafka.acls import Acl, Grantee, by_operations
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import TopicSpec

_API_VERSION: Final = "kafka.strimzi.io/v1"
_PATTERNS: Final = {"literal": "literal", "prefixed": "prefix"}
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.]+")


def strimzi_topics(settings: KafkaSettings, topics: Iterable[TopicSpec], *, cluster: str) -> str:
    """Return YAML documents, one `KafkaTopic` per topic, with the layout that these settings give it.

    `cluster` is the name of the Kafka resource. Without a replication factor Strimzi uses the brokers'
    default.
    """
    return "---\n".join(_topic(settings, topic, cluster) for topic in topics)


def _topic(settings: KafkaSettings, topic: TopicSpec, cluster: str) -> str:
    full_name = settings.topic(topic.name)
    lines = [f"topicName: {json.dumps(full_name)}", f"partitions: {settings.partitions_of(topic)}"]
    if settings.replication_factor is not None:
        lines.append(f"replicas: {settings.replication_factor}")
    lines.append("config:")
    lines += [f"  {json.dumps(key)}: {json.dumps(text)}" for key, text in settings.config_of(topic).items()]
    return _head("KafkaTopic", resource_name(full_name), cluster) + "".join(f"  {line}\n" for line in lines)


def resource_name(full_name: str) -> str:
    """Return the name of a topic's resource: lower case, and no characters that Kubernetes does not allow."""
    labels = (label.strip("-") for label in _NOT_IN_NAMES.sub("-", full_name.lower()).split("."))
    return ".".join(label for label in labels if label)


def strimzi_users(rights: Iterable[Acl], principals: Mapping[Grantee, str], *, cluster: str) -> str:
    """Return YAML documents, one `KafkaUser` per program.

    `cluster` is the name of the Kafka resource. The user's name is the principal without `User:`; the Strimzi
    operator creates a SCRAM-SHA-512 password for it.
    """
    documents = []
    for program, of_program in groupby(rights, key=lambda right: right.program):
        user = principals[program].removeprefix("User:")
        head = (
            f"{_head('KafkaUser', user, cluster)}"
            "  authentication:\n"
            "    type: scram-sha-512\n"
            "  authorization:\n"
            "    type: simple\n"
            "    acls:\n"
        )
        documents.append(head + "".join(_strimzi_rules(of_program)))
    return "---\n".join(documents)


def _strimzi_rules(rights: Iterable[Acl]) -> Iterator[str]:
    for (resource, pattern, operations), names in by_operations(rights).items():
        for name in names:
            yield (
                "      - resource:\n"
                f"          type: {resource}\n"
                f"          name: {json.dumps(name)}\n"
                f"          patternType: {_PATTERNS[pattern]}\n"
                f"        operations: [{', '.join(operations)}]\n"
            )


def _head(kind: str, name: str, cluster: str) -> str:
    """Return the beginning of a resource, up to its `spec`."""
    return (
        f"apiVersion: {_API_VERSION}\n"
        f"kind: {kind}\n"
        "metadata:\n"
        f"  name: {json.dumps(name)}\n"
        "  labels:\n"
        f"    strimzi.io/cluster: {json.dumps(cluster)}\n"
        "spec:\n"
    )
