"""Three brokers with SASL_SSL, SCRAM and `StandardAuthorizer`: every program runs with its own rights alone.

The rights are those that `culm topics acls` prints. The authorizer's log shows who asked for more, in vain.
One broker is killed on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_infra.demo.kit.processes import CulmProcess, running
from culm_infra.stack.ports import free_ports
from culm_models.p2panda.operations.operation import decode_operation
from culm_topics.kafka import clients as kafka
from culm_topics.logs.consumer import LogConsumer
from culm_topics.sds.keys import shard_of
from tests.support.deployment.secured import NOBODY, PREFIX, USERS, Deployment, grant_all
from tests.support.kafka.cluster import KafkaCluster, Node, running_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.deploy]

SCHEMA = "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b"
_TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers on which every program has its rights."""
    with running_cluster(tmp_path_factory.mktemp("secured") / "kafka", users=USERS) as running:
        grant_all(running)
        yield running


def test_every_program_runs_with_its_own_rights_and_no_others(cluster: KafkaCluster, tmp_path: Path) -> None:
    deployment = Deployment(cluster, tmp_path)
    culm = deployment.culm
    deployment.create_topics()
    (port,) = free_ports(1)
    edge = f"127.0.0.1:{port}"
    connector = CulmProcess(
        "the connector",
        ("connector", "run", "--listen", edge, "--dir", str(tmp_path / "edge"), "--serve-at-once"),
        deployment.variables("connector"),
        tmp_path / "connector.log",
    )
    with running([connector]):
        connector.start()
        connector.wait_for_log("serving peers", _TIMEOUT_S)
        # Two of three copies are enough for all that follows, also where the broker that is gone led them: a
        # client that looks for a leader now finds the dead one, until the cluster has noticed.
        leader_of(deployment, "sds.messages", "tide").kill()
        peer = ("--dir", str(tmp_path / "peer"))
        culm(NOBODY, "p2panda", "peer", "init", *peer)
        culm(NOBODY, "p2panda", "peer", "publish", "create", "name=The Reed", "--schema", SCHEMA, *peer)
        culm(NOBODY, "p2panda", "peer", "sync", edge, "--timeout", "60", *peer)
        culm(NOBODY, "sds", "send", "tide", "in", "--edge", edge, "--dir", str(tmp_path / "sds"))
        for which in ("all", "sds"):
            checkpoints = ("--checkpoints", str(tmp_path / which))
            culm("job", "job", "run", which, "--once", "--master", "local[2]", *checkpoints)
        with LogConsumer(deployment.settings("consumer"), group_id=f"{PREFIX}reader") as consumer:
            entry = next(iter(consumer))
            consumer.commit()
        assert decode_operation(entry.operation_bytes).fields == {"name": "The Reed"}
        shown = {
            command: culm("operator", *command.split(), "--json")
            for command in ("logs list", "logs status", "logs blocks", "sds status", "sds status tide")
        }
        assert json.loads(shown["logs list"].splitlines()[0])["height"] == 1
        assert "tide" in shown["sds status"]
        culm("operator", "logs", "status", json.loads(shown["logs status"].splitlines()[0])["peer"])
    culm("operator", "logs", "index", "verify", "--dir", str(tmp_path / "edge"), "--json")
    assert cluster.denials() == [], "no program asked for more than it has"
    culm("admin", "doctor")
    asked = [line for line in cluster.denials() if "on resource = Cluster:" not in line]
    assert asked == [], "the doctor asks only whether it may list rights"


def leader_of(deployment: Deployment, topic: str, channel_id: str) -> Node:
    """The broker that leads a channel's partition."""
    settings = deployment.settings("admin")
    client = kafka.admin(settings)
    name = settings.topic(topic)
    partitions = client.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
    leader = partitions[shard_of(channel_id, len(partitions))].leader
    return next(node for node in deployment.cluster.nodes if node.number == leader)


def test_a_program_may_not_do_what_another_does(cluster: KafkaCluster, tmp_path: Path) -> None:
    consumer = Deployment(cluster, tmp_path).settings("consumer")
    entries = f"{PREFIX}entries"
    writer = kafka.producer(consumer)
    refused: list[str] = []
    writer.produce(entries, b"x", on_delivery=lambda error, _: refused.append(error.name() if error else ""))
    writer.flush(_TIMEOUT_S)
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
    reader = kafka.consumer(consumer, group_id=f"{PREFIX}spy", start="earliest")
    try:
        known = reader.list_topics(entries, timeout=_TIMEOUT_S).topics[entries]
    finally:
        reader.close()
    assert known.error is not None
    assert known.error.name() == "TOPIC_AUTHORIZATION_FAILED"
