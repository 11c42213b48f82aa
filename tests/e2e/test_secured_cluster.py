"""Three brokers with SASL_SSL, SCRAM and `StandardAuthorizer`: every program runs with its own rights alone.

The rights are those that `culm topics acls` prints. The authorizer's log shows who asked for more, in vain.
One broker is killed on the way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from culm_infra.demo.processes import CulmProcess, environment, free_udp_ports, running
from culm_topics import kafka
from culm_topics.acls import GRANTEES, Acl, acls
from culm_topics.consumer import LogConsumer
from culm_topics.kafka import KafkaSettings
from tests.support.kafka_cluster import ADMIN, KafkaCluster, running_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

PREFIX = "tides."
SCHEMA = "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b"
_TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers, and one user a program with the rights that the catalogue says."""
    users = [*GRANTEES, "nobody"]
    with running_cluster(tmp_path_factory.mktemp("secured") / "kafka", users=users) as running:
        grant(running, acls(running.settings(ADMIN, PREFIX)))
        yield running


def grant(cluster: KafkaCluster, rights: Sequence[Acl]) -> None:
    """Grant each right to the user that is named as the program."""
    client = kafka.admin(cluster.settings(ADMIN, PREFIX))
    bindings = [
        AclBinding(
            ResourceType[right.resource.upper()],
            right.name,
            ResourcePatternType[right.pattern.upper()],
            f"User:{right.program}",
            "*",
            AclOperation[
                "DESCRIBE_CONFIGS" if right.operation == "DescribeConfigs" else right.operation.upper()
            ],
            AclPermissionType.ALLOW,
        )
        for right in rights
    ]
    for made in client.create_acls(bindings).values():
        made.result()


def settings(cluster: KafkaCluster, user: str) -> KafkaSettings:
    return cluster.settings(user, PREFIX, partitions=2)


def culm(cluster: KafkaCluster, folder: Path, user: str, *arguments: str) -> str:
    """Run one command as a user; its standard output."""
    answer = subprocess.run(
        [sys.executable, "-m", "culm_infra", *arguments],
        cwd=folder,
        env=variables(cluster, folder, user),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    assert answer.returncode == 0, f"culm {' '.join(arguments)}: {answer.stdout}{answer.stderr}"
    return answer.stdout


def variables(cluster: KafkaCluster, folder: Path, user: str) -> dict[str, str]:
    """The environment of a program that logs in as this user, with no right of another program near it."""
    return environment(settings(cluster, user)) | {
        "CULM_STACK__DIRECTORY": str(folder / "stack"),
        "HOME": str(folder),
        "CULM_JARS_DIR": os.environ.get("CULM_JARS_DIR", str(Path.home() / ".cache/culm/jars")),
    }


def test_every_program_runs_with_its_own_rights_and_no_others(cluster: KafkaCluster, tmp_path: Path) -> None:
    def run(user: str, *arguments: str) -> str:
        return culm(cluster, tmp_path, user, *arguments)

    layout = ("--partitions", "2", "--replication-factor", "3")
    run("admin", "topics", "create", *layout)
    run("admin", "topics", "check", *layout)
    run("operator", "topics", "check", *layout)
    (port,) = free_udp_ports(1)
    edge = f"127.0.0.1:{port}"
    connector = CulmProcess(
        "the connector",
        ("connector", "run", "--listen", edge, "--dir", str(tmp_path / "edge"), "--serve-at-once"),
        variables(cluster, tmp_path, "connector"),
        tmp_path / "connector.log",
    )
    with running([connector]):
        connector.start()
        connector.wait_for_log("serving peers", _TIMEOUT_S)
        # Two of three copies are enough for all that follows.
        cluster.nodes[2].kill()
        peer = ("--dir", str(tmp_path / "peer"))
        run("nobody", "peer", "init", *peer)
        run("nobody", "peer", "publish", "create", "name=The Reed", "--schema", SCHEMA, *peer)
        run("nobody", "peer", "sync", edge, *peer)
        run("nobody", "sds", "send", "tide", "in", "--edge", edge, "--home", str(tmp_path / "sds"))
        for which in ("all", "sds"):
            checkpoints = ("--checkpoints", str(tmp_path / which))
            run("job", "job", "run", which, "--once", "--master", "local[2]", *checkpoints)
        with LogConsumer(settings(cluster, "consumer"), group_id=f"{PREFIX}reader") as consumer:
            entry = next(iter(consumer))
            consumer.commit()
        assert entry.operation().fields == {"name": "The Reed"}
        shown = {
            command: run("operator", *command.split(), "--json")
            for command in ("logs list", "peers", "blocks", "sds status", "sds status tide")
        }
        assert json.loads(shown["logs list"].splitlines()[0])["height"] == 1
        assert "tide" in shown["sds status"]
        peer_id = json.loads(shown["peers"].splitlines()[0])["peer"]
        run("operator", "vv", peer_id)
    run("operator", "index", "verify", "--dir", str(tmp_path / "edge"), "--json")
    run("admin", "doctor")
    assert cluster.denials() == [], "no program asked for more than it has"


def test_a_program_may_not_do_what_another_does(cluster: KafkaCluster) -> None:
    writer = kafka.producer(settings(cluster, "consumer"))
    refused: list[str] = []
    writer.produce(
        f"{PREFIX}entries", b"x", on_delivery=lambda error, _: refused.append(error.name() if error else "")
    )
    writer.flush(_TIMEOUT_S)
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
    reader = kafka.consumer(settings(cluster, "consumer"), group_id=f"{PREFIX}spy", start="earliest")
    try:
        known = reader.list_topics(f"{PREFIX}entries", timeout=_TIMEOUT_S).topics[f"{PREFIX}entries"]
    finally:
        reader.close()
    assert known.error is not None
    assert known.error.name() == "TOPIC_AUTHORIZATION_FAILED"
