"""The rights that each program needs on a broker with access control, derived from the catalogue.

A connector reads and writes its own topics and reads `logs`, `version-vectors` and the like; the streaming
jobs write the state; a consumer of replicated logs reads the logs and the channels and nothing else; an
operator reads all. The admin creates topics, which no other program may do, and performs the checks of `culm
doctor`. No program needs a right on the cluster: an idempotent producer requires none since Kafka 2.8.

Group ids start with the deployment's prefix, followed by a prefix for each kind of program, so that two
deployments on one cluster share no right.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, get_args

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.catalogue.topics import readers, writers
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import job_group_prefix
from culm_topics.topic_spec import Program

ResourceKind = Literal["topic", "group"]
Operation = Literal["Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs"]
Grantee = Literal[Program, "admin"]
"""Receiver of rights: every program of the catalogue, and the admin, who creates the topics."""

GRANTEES: tuple[Grantee, ...] = ("admin", *get_args(Program))


@dataclass(frozen=True, slots=True)
class Acl:
    """One right: `pattern` is `literal` (exactly this name) or `prefixed` (names that start with it)."""

    program: Grantee
    resource: ResourceKind
    name: str
    pattern: Literal["literal", "prefixed"]
    operation: Operation


def acls(settings: KafkaSettings, programs: Sequence[Grantee] = GRANTEES) -> tuple[Acl, ...]:
    """Return all rights that the programs need, in the catalogue's order."""
    rights: list[Acl] = []
    for program in programs:
        rights += _admin_rights(settings) if program == "admin" else _program_rights(settings, program)
    return tuple(rights)


def reader_group_prefix(settings: KafkaSettings) -> str:
    """Return the prefix of the group ids of readers that never commit: commands and starting connectors."""
    return f"{settings.prefix}reader-"


def connector_group_prefix(settings: KafkaSettings) -> str:
    """Return the prefix of the group ids of connectors; they never commit."""
    return f"{settings.prefix}connector-"


def doctor_prefix(settings: KafkaSettings) -> str:
    """Return the prefix of the topics and groups that `culm doctor` creates, uses and deletes."""
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
        # To read the job `logs`' position: entries that the job did not read are produced again.
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
        # Like other readers, a connector does lookups in a channel's store and starts from `blocks`.
        "connector": (connector_group_prefix(settings), reader_group_prefix(settings)),
        "job": (job_group_prefix(settings),),
        "consumer": (settings.prefix,),
        "operator": (reader_group_prefix(settings),),
    }
    return groups[program]


_SCRIPT_HEAD: Final = """\
#!/bin/sh
# Grants the rights of Culm's programs. Needs kafka-acls.sh on the PATH, BOOTSTRAP (host:port), and where the
# cluster asks for a login the file of its properties in COMMAND_CONFIG. Safe to repeat.
set -eu
grant() {
    kafka-acls.sh --bootstrap-server "$BOOTSTRAP" \\
        ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} --add "$@"
}
"""


def default_principal(program: Grantee) -> str:
    """Return the default principal of a program: `User:culm-<program>`."""
    return f"User:culm-{program}"


def script(rights: Iterable[Acl], principals: Mapping[Grantee, str]) -> str:
    """Return a shell script that grants the rights, one call for all resources with the same operations."""
    lines = [_SCRIPT_HEAD]
    for program, of_program in groupby(rights, key=lambda right: right.program):
        lines.append(f"\n# {program}\n")
        principal = shlex.quote(principals[program])
        for (resource, pattern, operations), names in by_operations(of_program).items():
            words = [f"--allow-principal {principal}"]
            words += [f"--operation {operation}" for operation in operations]
            words += [f"--{resource} {shlex.quote(name)}" for name in names]
            if pattern == "prefixed":
                words.append("--resource-pattern-type prefixed")
            lines.append(f"grant {' '.join(words)}\n")
    return "".join(lines)


def by_operations(rights: Iterable[Acl]) -> dict[tuple[str, str, Sequence[str]], list[str]]:
    """Group the names of resources by their kind, pattern and operations."""
    operations: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        operations.setdefault((right.resource, right.pattern, right.name), []).append(right.operation)
    calls: dict[tuple[str, str, Sequence[str]], list[str]] = {}
    for (resource, pattern, name), granted in operations.items():
        calls.setdefault((resource, pattern, tuple(granted)), []).append(name)
    return calls
