"""A deployment on a secured cluster: one user a program, with the rights that `culm topics acls` prints."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from culm_infra.demo.kit.processes import environment
from culm_infra.stack.jars import cache_directory
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import GRANTEES, Acl, acls
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.cluster import ADMIN, KafkaCluster

NOBODY = "nobody"
"""A user without any right."""
USERS = (*GRANTEES, NOBODY)
PREFIX = "tides."
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment on a cluster, and a folder for what its programs keep."""

    cluster: KafkaCluster
    folder: Path
    partitions: int = 2

    def settings(self, user: str) -> KafkaSettings:
        """How a user reaches the topics."""
        return self.cluster.settings(
            user, PREFIX, partitions=self.partitions, replication_factor=len(self.cluster.nodes)
        )

    def variables(self, user: str) -> dict[str, str]:
        """The environment of a program that logs in as this user."""
        return environment(self.settings(user)) | {
            "CULM_STACK__DIRECTORY": str(self.folder / "stack"),
            "CULM_JARS_DIR": str(cache_directory()),
            "CULM_JOB__STATE_PARTITIONS": "2",
            # No settings file or key of whoever runs the tests.
            "HOME": str(self.folder),
        }

    def culm(self, user: str, *arguments: str) -> str:
        """Run one command as a user, which must succeed; its standard output."""
        answer = subprocess.run(
            [sys.executable, "-m", "culm_infra", *arguments],
            cwd=self.folder,
            env=self.variables(user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        assert answer.returncode == 0, f"culm {' '.join(arguments)}: {answer.stdout}{answer.stderr}"
        return answer.stdout

    def create_topics(self) -> None:
        """Create the topics as `admin` and check them as `operator`."""
        layout = (
            *("--partitions", str(self.partitions)),
            *("--replication-factor", str(len(self.cluster.nodes))),
        )
        self.culm("admin", "topics", "create", *layout)
        self.culm("operator", "topics", "check", *layout)


def grant_all(cluster: KafkaCluster) -> None:
    """Grant every right of the catalogue to the user that is named as its program."""
    administrator = cluster.settings(ADMIN, PREFIX)
    client = kafka.admin(administrator)
    for made in client.create_acls([_binding(right) for right in acls(administrator)]).values():
        made.result()


def _binding(right: Acl) -> AclBinding:
    operation = "DESCRIBE_CONFIGS" if right.operation == "DescribeConfigs" else right.operation.upper()
    return AclBinding(
        ResourceType[right.resource.upper()],
        right.name,
        ResourcePatternType[right.pattern.upper()],
        f"User:{right.program}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )
