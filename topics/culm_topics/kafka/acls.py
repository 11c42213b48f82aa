"""The rights that each program needs on a broker with access control, derived from the catalogue.

A connector reads and writes its own topics and reads `logs`, `version-vectors` and the like; the streaming
jobs write the state; a consumer of replicated logs reads the logs and the channels and nothing else; an
operator reads all. The admin creates topics, which nobody else may, and does what `culm doctor` tries.
Nobody needs a right on the cluster: an idempotent producer asks for none since Kafka 2.8.

Groups start with the deployment's prefix, each kind of program with a prefix of its own behind it, so that
two deployments on one cluster share no right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import readers, writers
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import job_group_prefix
from culm_topics.topic_spec import Program

ResourceKind = Literal["topic", "group"]
Operation = Literal["Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs"]
Grantee = Literal[Program, "admin"]
"""Who is granted rights: every program of the catalogue, and whoever creates the topics."""

GRANTEES: tuple[Grantee, ...] = ("admin", *get_args(Program))


@dataclass(frozen=True, slots=True)
class Acl:
    """One right: `pattern` is `literal` (the very name) or `prefixed` (every name that starts so)."""

    program: Grantee
    resource: ResourceKind
    name: str
    pattern: Literal["literal", "prefixed"]
    operation: Operation


def acls(settings: KafkaSettings, programs: Sequence[Grantee] = GRANTEES) -> tuple[Acl, ...]:
    """Every right that the programs need, in the catalogue's order."""
    rights: list[Acl] = []
    for program in programs:
        rights += _admin_rights(settings) if program == "admin" else _program_rights(settings, program)
    return tuple(rights)


def reader_group_prefix(settings: KafkaSettings) -> str:
    """What the group ids of readers that never commit start with: commands, and connectors that start."""
    return f"{settings.prefix}reader-"


def connector_group_prefix(settings: KafkaSettings) -> str:
    """What the group ids of connectors start with; they commit nothing."""
    return f"{settings.prefix}connector-"


def doctor_prefix(settings: KafkaSettings) -> str:
    """What the topics and groups start with that `culm doctor` makes, uses and deletes."""
    return f"{settings.prefix}doctor-"


def _program_rights(settings: KafkaSettings, program: Program) -> list[Acl]:
    rights: list[Acl] = []
    for topic in CATALOGUE:
        operations: list[Operation] = []
        if program in readers(topic):
            operations.append("Read")
        if program in writers(topic):
            operations.append("Write")
        if operations:
            operations.append("Describe")
        if program == "operator":
            operations.append("DescribeConfigs")
        name = settings.topic(topic.name)
        rights += [Acl(program, "topic", name, "literal", operation) for operation in operations]
    rights += [Acl(program, "group", group, "prefixed", "Read") for group in _groups(settings, program)]
    if program == "connector":
        # How far the job `logs` has read: entries that it did not take are produced again.
        rights.append(Acl(program, "group", job_group_prefix(settings), "prefixed", "Describe"))
    return rights


def _admin_rights(settings: KafkaSettings) -> list[Acl]:
    created: tuple[Operation, ...] = ("Create", "Describe", "DescribeConfigs")
    tried: tuple[Operation, ...] = ("Read", "Write", "Delete")
    doctor = doctor_prefix(settings)
    return [
        *(Acl("admin", "topic", settings.prefix, "prefixed", operation) for operation in created),
        *(Acl("admin", "topic", doctor, "prefixed", operation) for operation in tried),
        Acl("admin", "group", doctor, "prefixed", "Read"),
    ]


def _groups(settings: KafkaSettings, program: Program) -> tuple[str, ...]:
    groups = {
        # A connector looks things up in a channel's store, and starts from `blocks`, as other readers do.
        "connector": (connector_group_prefix(settings), reader_group_prefix(settings)),
        "job": (job_group_prefix(settings),),
        "consumer": (settings.prefix,),
        "operator": (reader_group_prefix(settings),),
    }
    return groups[program]
