"""A Kafka cluster of several brokers for tests: KRaft, from the published jars, open or secured.

Secured means what a company runs: SASL_SSL with SCRAM-SHA-512 for every client and between the brokers,
`StandardAuthorizer`, and nobody allowed anything but what an ACL grants. The authorizer logs what it refuses
(`denials`), so a test sees the rights that a client lacks, also where the client goes on without them.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from culm_infra.patience import Patience
from culm_infra.stack import Java, find_java, jars
from culm_infra.stack.broker import new_cluster_id
from culm_infra.stack.class_archive import archive_options
from culm_infra.stack.ports import HOST, free_ports
from culm_infra.stack.process import ProcessIdentity, spawn_detached
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from tests.support.process.waiting import output_of

ADMIN = "kafka-admin"
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0
_DENIED = " is Denied operation = "

_LOG4J = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN" shutdownHook="disable">
  <Appenders>
    <File name="broker" fileName="${sys:culm.logs}/broker.log">
      <PatternLayout pattern="%d %-5p %c{1}: %m%n"/>
    </File>
    <File name="authorizer" fileName="${sys:culm.logs}/authorizer.log">
      <PatternLayout pattern="%m%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="broker"/></Root>
    <Logger name="kafka.authorizer.logger" level="INFO" additivity="false">
      <AppenderRef ref="authorizer"/>
    </Logger>
  </Loggers>
</Configuration>
"""


class ClusterError(Exception):
    """The cluster did not start."""


@dataclass(slots=True)
class Node:
    """One broker that is a controller too, with its data in a folder of its own."""

    number: int
    folder: Path
    port: int
    controller_port: int
    process: ProcessIdentity | None = None

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self.process is not None, "the broker was started"
        self.process.kill()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP while the context lasts."""
        assert self.process is not None, "the broker was started"
        self.process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send(signal.SIGCONT)


@dataclass(slots=True)
class KafkaCluster:
    """Brokers that form one cluster. `users` may log in with their own names as passwords."""

    folder: Path
    nodes: Sequence[Node]
    users: Sequence[str] = ()
    heap_mb: int = 320
    secured: bool = True
    cluster_id: str = field(default_factory=new_cluster_id)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def options(self, user: str) -> dict[str, str]:
        """librdkafka properties with which `user` logs in."""
        if not self.secured:
            return {}
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": user,
            "ssl.ca.location": str(self.folder / "ca.pem"),
        }

    def settings(self, user: str, prefix: str, **more: object) -> KafkaSettings:
        """How `user` reaches the deployment with this prefix."""
        return KafkaSettings.model_validate(
            {"bootstrap": self.bootstrap, "prefix": prefix, "options": self.options(user), **more}
        )

    def start(self, node: Node) -> None:
        """Start one broker; returns at once."""
        java = find_java()
        node.process = spawn_detached(
            [
                str(java.executable),
                *_archive(java),
                "-Xms128m",
                f"-Xmx{self.heap_mb}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.xml').as_uri()}",
                f"-Dculm.logs={node.logs}",
                "kafka.Kafka",
                str(node.folder / "server.properties"),
            ],
            environment=_environment(),
            output=node.logs / "jvm.out",
        )

    def await_all(self) -> None:
        """Wait until every broker is in the cluster. Raises ClusterError."""
        client = kafka.admin(self.settings(ADMIN, "t.", options={**self.options(ADMIN), "log_level": "0"}))
        patience = Patience(_START_TIMEOUT_S, output_of(*(node.logs / "jvm.out" for node in self.nodes)))
        answering = 0
        while not patience.is_over():
            if any(node.process is None or not node.process.is_running() for node in self.nodes):
                break
            with contextlib.suppress(Exception):
                answering = len(client.list_topics(timeout=2.0).brokers)
            if answering == len(self.nodes):
                return
            time.sleep(0.1)
        output = "\n".join((node.logs / "jvm.out").read_text()[-2000:] for node in self.nodes)
        raise ClusterError(f"{answering} of {len(self.nodes)} brokers answer\n{output}")

    def stop(self) -> None:
        """Stop every broker; those that do not end in time are killed."""
        running = [node.process for node in self.nodes if node.process is not None]
        for process in running:
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        for process in running:
            process.stop(timeout_s=_STOP_TIMEOUT_S)

    def denials(self) -> list[str]:
        """What the authorizers refused since the start, a line each."""
        lines: list[str] = []
        for node in self.nodes:
            log = node.logs / "authorizer.log"
            if log.exists():
                lines += [line for line in log.read_text().splitlines() if _DENIED in line]
        return lines


@contextlib.contextmanager
def running_cluster(
    folder: Path, *, brokers: int = 3, users: Sequence[str] = (), secured: bool = True
) -> Iterator[KafkaCluster]:
    """A cluster of fresh brokers, stopped at the end. Its internal topics are on all of them."""
    cluster = KafkaCluster(folder, _nodes(folder, brokers), users, secured=secured)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.xml").write_text(_LOG4J)
    if secured:
        _write_certificates(folder)
    try:
        for node in cluster.nodes:
            node.logs.mkdir(parents=True)
            _write_properties(cluster, node)
        _format(cluster)
        for node in cluster.nodes:
            cluster.start(node)
        cluster.await_all()
        yield cluster
    finally:
        cluster.stop()


def _nodes(folder: Path, brokers: int) -> tuple[Node, ...]:
    ports = free_ports(2 * brokers)
    return tuple(
        Node(number + 1, folder / f"broker-{number + 1}", ports[2 * number], ports[2 * number + 1])
        for number in range(brokers)
    )


def _write_properties(cluster: KafkaCluster, node: Node) -> None:
    copies = str(len(cluster.nodes))
    in_sync = str(max(1, len(cluster.nodes) - 1))
    clients = "SASL_SSL" if cluster.secured else "PLAINTEXT"
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(
            f"{each.number}@{HOST}:{each.controller_port}" for each in cluster.nodes
        ),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,CLIENTS:{clients}",
        "inter.broker.listener.name": "CLIENTS",
        "listeners": f"CLIENTS://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "log.dir": str(node.folder / "data"),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
    if cluster.secured:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        properties |= {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": (
                f'{login} required username="{ADMIN}" password="{ADMIN}";'
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(cluster.folder / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(cluster.folder / "ca.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controllers' own listener has no login; no client reaches it.
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
        }
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    (node.folder / "server.properties").write_text(text)


def _format(cluster: KafkaCluster) -> None:
    java = find_java()
    command = [
        str(java.executable),
        *_archive(java),
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        "kafka.tools.StorageTool",
    ]
    command += ["format", "--cluster-id", cluster.cluster_id]
    if cluster.secured:
        for user in (ADMIN, *cluster.users):
            command += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={user}]"]
    for node in cluster.nodes:
        answer = subprocess.run(
            [*command, "--config", str(node.folder / "server.properties")],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise ClusterError(f"formatting failed: {answer.stdout}{answer.stderr}")


def _archive(java: Java) -> tuple[str, ...]:
    """The archive of classes that a quick start of the local stack has written, if it has."""
    return archive_options("broker", java, jars.ensure("broker"), record=False)


def _environment() -> dict[str, str]:
    class_path = os.pathsep.join(str(jar) for jar in jars.ensure("broker"))
    return {**os.environ, "CLASSPATH": class_path}


def _write_certificates(folder: Path) -> None:
    """A certificate authority, and one certificate of the loopback address for all brokers."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, broker_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    broker_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])

    def builder(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    authority = (
        builder(ca_name, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        builder(broker_name, broker_key)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = broker_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    (folder / "broker.pem").write_bytes(private + certificate.public_bytes(pem) + authority.public_bytes(pem))
