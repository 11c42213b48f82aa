"""Rights in the forms in which they are granted: a script for `kafka-acls.sh`, and Strimzi's `KafkaUser`."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from culm_topics.kafka.acls import Acl, Grantee

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
