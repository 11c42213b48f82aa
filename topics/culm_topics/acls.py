"""The rights that each program needs on a broker with access control, derived from the catalogue.

A connector reads and writes its own topics and reads `logs`, `version-vectors` and the like; the streaming
jobs write the state; a consumer of replicated logs reads `logs` and nothing else; an operator reads all.
Nobody needs a right on the cluster but IdempotentWrite (for brokers older than 2.8).
"""

from dataclasses import dataclass
from typing import Literal, get_args

from culm_topics.catalogue import CATALOGUE, Program
from culm_topics.kafka import KafkaSettings

ResourceKind = Literal["topic", "group", "cluster"]
Operation = Literal["Read", "Write", "Describe", "DescribeConfigs", "IdempotentWrite"]
PROGRAMS: tuple[Program, ...] = get_args(Program)


@dataclass(frozen=True, slots=True)
class Acl:
    """One right: `pattern` is `literal` (the very name) or `prefixed` (every name that starts so)."""

    program: Program
    resource: ResourceKind
    name: str
    pattern: Literal["literal", "prefixed"]
    operation: Operation


def acls(settings: KafkaSettings, programs: tuple[Program, ...] = PROGRAMS) -> tuple[Acl, ...]:
    """Every right that the programs need, in the catalogue's order."""
    rights: list[Acl] = []
    for program in programs:
        for topic in CATALOGUE:
            name = settings.topic(topic.name)
            operations: list[Operation] = []
            if program in topic.readers:
                operations.append("Read")
            if program in topic.writers:
                operations.append("Write")
            if operations:
                operations.append("Describe")
            if program == "operator":
                operations.append("DescribeConfigs")
            rights.extend(Acl(program, "topic", name, "literal", operation) for operation in operations)
        rights.extend(
            Acl(program, "group", group, "prefixed", "Read") for group in _groups(settings, program)
        )
        if any(program in topic.writers for topic in CATALOGUE):
            rights.append(Acl(program, "cluster", "kafka-cluster", "literal", "IdempotentWrite"))
    return tuple(rights)


def reader_group_prefix(settings: KafkaSettings) -> str:
    """What the group ids of readers that never commit start with."""
    return f"{settings.prefix}reader-"


def connector_group_prefix(settings: KafkaSettings) -> str:
    """What the group ids of connectors start with; they commit nothing."""
    return f"{settings.prefix}connector-"


def _groups(settings: KafkaSettings, program: Program) -> tuple[str, ...]:
    groups = {
        # A connector looks things up in the store of SDS as other readers do.
        "connector": (connector_group_prefix(settings), reader_group_prefix(settings)),
        # Spark names its groups itself; its positions are in its checkpoint.
        "job": ("spark-kafka-source-",),
        "consumer": (settings.prefix,),
        "operator": (reader_group_prefix(settings),),
    }
    return groups[program]


def command(right: Acl, principal: str) -> str:
    """The right as arguments of `kafka-acls.sh --add`."""
    target = {
        "topic": f"--topic {right.name}",
        "group": f"--group '{right.name}'",
        "cluster": "--cluster",
    }[right.resource]
    pattern = " --resource-pattern-type prefixed" if right.pattern == "prefixed" else ""
    return f"--allow-principal {principal} --operation {right.operation} {target}{pattern}"
