"""The rights that each program needs on a broker with access control, derived from the catalogue.

A connector reads and writes its own topics and reads `logs`, `version-vectors` and the like; the streaming
jobs write the state; a consumer of replicated logs reads the logs and the channels and nothing else; an
operator reads all. The admin creates topics, which nobody else may, and does what `culm doctor` tries.
Nobody needs a right on the cluster: an idempotent producer asks for none since Kafka 2.8.

Groups start with the deployment's prefix, each kind of program with a prefix of its own behind it, so that
two deployments on one cluster share no right.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


_PATTERN_IN_STRIMZI: Final = {"literal": "literal", "prefixed": "prefix"}
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
    """The principal that a program has unless another is given: `User:culm-<program>`."""
    return f"User:culm-{program}"


def script(rights: Iterable[Acl], principals: Mapping[Grantee, str]) -> str:
    """A shell script that grants the rights, one call for all resources with the same operations."""
    lines = [_SCRIPT_HEAD]
    for program, of_program in groupby(rights, key=lambda right: right.program):
        lines.append(f"\n# {program}\n")
        principal = shlex.quote(principals[program])
        for (resource, pattern, operations), names in _calls(of_program).items():
            words = [f"--allow-principal {principal}"]
            words += [f"--operation {operation}" for operation in operations]
            words += [f"--{resource} {shlex.quote(name)}" for name in names]
            if pattern == "prefixed":
                words.append("--resource-pattern-type prefixed")
            lines.append(f"grant {' '.join(words)}\n")
    return "".join(lines)


def strimzi_users(rights: Iterable[Acl], principals: Mapping[Grantee, str], *, cluster: str) -> str:
    """YAML documents, one `KafkaUser` a program, for the Kafka resource `cluster` (Strimzi 0.49 and newer).

    The user's name is the principal without `User:`; the operator makes a SCRAM-SHA-512 password for it.
    """
    documents = []
    for program, of_program in groupby(rights, key=lambda right: right.program):
        user = principals[program].removeprefix("User:")
        head = (
            "apiVersion: kafka.strimzi.io/v1\n"
            "kind: KafkaUser\n"
            "metadata:\n"
            f"  name: {json.dumps(user)}\n"
            "  labels:\n"
            f"    strimzi.io/cluster: {json.dumps(cluster)}\n"
            "spec:\n"
            "  authentication:\n"
            "    type: scram-sha-512\n"
            "  authorization:\n"
            "    type: simple\n"
            "    acls:\n"
        )
        documents.append(head + "".join(_strimzi_rules(of_program)))
    return "---\n".join(documents)


def _strimzi_rules(rights: Iterable[Acl]) -> Iterator[str]:
    for (resource, pattern, operations), names in _calls(rights).items():
        for name in names:
            yield (
                "      - resource:\n"
                f"          type: {resource}\n"
                f"          name: {json.dumps(name)}\n"
                f"          patternType: {_PATTERN_IN_STRIMZI[pattern]}\n"
                f"        operations: [{', '.join(operations)}]\n"
            )


def _calls(rights: Iterable[Acl]) -> dict[tuple[str, str, Sequence[str]], list[str]]:
    """The names of resources by their kind, pattern and operations."""
    operations: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        operations.setdefault((right.resource, right.pattern, right.name), []).append(right.operation)
    calls: dict[tuple[str, str, Sequence[str]], list[str]] = {}
    for (resource, pattern, name), granted in operations.items():
        calls.setdefault((resource, pattern, tuple(granted)), []).append(name)
    return calls
