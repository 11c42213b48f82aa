"""One Kafka broker and controller in one JVM (KRaft): its files, its start, and its health."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culm_infra.stack.class_archive import archive_options
from culm_infra.stack.errors import StackStartError
from culm_infra.stack.java import Java
from culm_infra.stack.ports import HOST
from culm_infra.stack.process import ProcessIdentity, spawn_detached
from culm_infra.stack.record import StackRecord

_FORMAT_TIMEOUT_S = 60.0
_INITIAL_HEAP_MB = 256
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""Compile quickly rather than well: half the processor time of a start, and slower once warm."""

# One node with its internal topics in one partition each: quick to start and to stop.
_PROPERTIES: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.recovery.threads.per.data.dir": "1",
    "num.partitions": "1",
    # A topic created by a misspelt name would hide the mistake; `culm topics create` creates ours.
    "auto.create.topics.enable": "false",
    # On one machine there are no further group members to wait for.
    "group.initial.rebalance.delay.ms": "0",
    # After a crash the controller readmits the broker when its old session has expired (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}

_LOG4J = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN" shutdownHook="disable">
  <Appenders>
    <RollingFile name="file" fileName="${sys:culm.log}" filePattern="${sys:culm.log}.%i">
      <PatternLayout pattern="%d{ISO8601} %-5p %c{1}: %m%n"/>
      <SizeBasedTriggeringPolicy size="16 MB"/>
      <DefaultRolloverStrategy max="3"/>
    </RollingFile>
  </Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="file"/></Root>
    <!-- The whole configuration again, at every start. -->
    <Logger name="kafka.server.KafkaConfig" level="WARN"/>
    <Logger name="org.apache.kafka.common.config.AbstractConfig" level="WARN"/>
  </Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Paths of the files of one broker, below the stack's directory."""

    directory: Path

    @property
    def data(self) -> Path:
        """Logs of the topics and metadata."""
        return self.directory / "data"

    @property
    def properties(self) -> Path:
        """Configuration of the broker, written at each start."""
        return self.directory / "server.properties"

    @property
    def log4j(self) -> Path:
        """Configuration of the broker's own log."""
        return self.directory / "log4j2.xml"

    @property
    def log(self) -> Path:
        """The broker's own log."""
        return self.directory / "logs" / "broker.log"

    @property
    def output(self) -> Path:
        """Standard output and error of the JVM."""
        return self.directory / "logs" / "jvm.out"


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: 22 characters of URL-safe base64, the first not a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def properties(record: StackRecord, data: Path) -> dict[str, str]:
    """Return the broker's configuration; the user's own properties take precedence."""
    return {
        **_PROPERTIES,
        "listeners": f"PLAINTEXT://{HOST}:{record.port},CONTROLLER://{HOST}:{record.controller_port}",
        "controller.quorum.bootstrap.servers": f"{HOST}:{record.controller_port}",
        "log.dir": str(data),
        **record.properties,
    }


def write_files(files: BrokerFiles, record: StackRecord) -> None:
    """Write the configuration of the broker and of its log."""
    files.log.parent.mkdir(parents=True, exist_ok=True)
    rows = properties(record, files.data).items()
    files.properties.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in rows))
    files.log4j.write_text(_LOG4J)


def format_data(files: BrokerFiles, record: StackRecord, java: Java, class_path: Sequence[Path]) -> None:
    """Prepare an empty data directory. Raises `StackStartError` with the output of Kafka's tool."""
    command = [
        str(java.executable),
        "-Xmx256m",
        _QUICK_START,
        *archive_options("broker", java, class_path, record=False),
        "kafka.tools.StorageTool",
        "format",
        "--standalone",
    ]
    command += ["--cluster-id", record.cluster_id, "--config", str(files.properties)]
    try:
        answer = subprocess.run(
            command,
            env=_environment(class_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_FORMAT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise StackStartError(f"formatting {files.data} took more than {_FORMAT_TIMEOUT_S:g} s") from error
    if answer.returncode != 0:
        lines = [line for line in answer.stdout.splitlines() if line.strip() and not line.startswith("\tat ")]
        raise StackStartError(f"formatting {files.data} failed: {' '.join(lines)[-1000:]}")


def start(
    files: BrokerFiles, record: StackRecord, java: Java, class_path: Sequence[Path], *, quick_start: bool
) -> ProcessIdentity | None:
    """Start the broker's JVM. Returns None if it ended at once."""
    command = [
        str(java.executable),
        f"-Xms{min(_INITIAL_HEAP_MB, record.heap_mb)}m",
        f"-Xmx{record.heap_mb}m",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        *([_QUICK_START, *archive_options("broker", java, class_path)] if quick_start else []),
        # A broker without memory must end rather than linger in an undefined state.
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={files.log4j.as_uri()}",
        f"-Dculm.log={files.log}",
        "kafka.Kafka",
        str(files.properties),
    ]
    return spawn_detached(command, environment=_environment(class_path), output=files.output)


def cluster_id_at(port: int, *, timeout_s: float) -> str | None:
    """Return the id of the cluster whose broker answers a metadata request on the port; None without an
    answer.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {
        "bootstrap.servers": f"{HOST}:{port}",
        "log_level": 0,
        "error_cb": lambda _error: None,
        "socket.timeout.ms": 5_000,
        "reconnect.backoff.max.ms": 200,
    }
    client = AdminClient(settings)
    try:
        metadata = client.list_topics(timeout=timeout_s)
    except KafkaException:
        return None
    return str(metadata.cluster_id) if metadata.brokers else None


def _environment(class_path: Sequence[Path]) -> Mapping[str, str]:
    # The class path is passed in the environment: as an argument it would fill every listing of processes.
    return {**os.environ, "CLASSPATH": os.pathsep.join(str(jar) for jar in class_path)}


def _escaped(value: str) -> str:
    """Escape a value for a file that Java reads as ISO 8859-1 with backslash escapes."""
    units = memoryview(value.encode("utf-16-be"))
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if 0x20 < unit < 0x7F and unit != 0x5C else f"\\u{unit:04x}" for unit in pairs)
