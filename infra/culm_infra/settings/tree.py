"""Tree of all settings with their defaults and bounds.

The models of most tables are in the packages that they configure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from culm_connectors.settings import ConnectorLimits, parse_address
from culm_infra.protocols import ProtocolJobs, ProtocolSections
from culm_infra.sections.console import ConsoleSection
from culm_infra.sections.log_jobs import (
    BlocksJobSection,
    CoverageJobSection,
    VersionVectorsJobSection,
)
from culm_topics.catalogue.jobs import runnable_names
from culm_topics.topic_spec import MAX_COPIES

Port = Annotated[int, Field(ge=0, le=65_535)]
LogFormat = Literal["text", "json"]


class SettingsSection(BaseModel):
    """A table of the settings file; unknown names in it are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StackSection(SettingsSection):
    """The local stack: a single-node Kafka and the checkpoints of its jobs."""

    name: str = Field(
        "default",
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="Name of the local stack; several stacks may run side by side.",
    )
    directory: Path | None = Field(
        None,
        description="Folder of the stack's data. By default it is in the user's data directory.",
        examples=["/srv/culm/stack"],
    )
    heap_mb: int | None = Field(
        None,
        ge=128,
        le=65_536,
        description="Largest heap of the broker. By default it is that of the broker's last start, "
        "and 512 at the first one.",
        examples=[1024],
    )
    quick_start: bool = Field(False, description="Starts the broker sooner; it is slower once it is warm.")


class JobSection(ProtocolJobs):
    """The streaming jobs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[*]", description="URL of the Spark master.")
    checkpoints: str | None = Field(
        None,
        description="Folder of the checkpoints, as a path or as any URL that Spark can write. By "
        "default it is below the stack's folder.",
        examples=["s3a://culm/checkpoints"],
    )
    verify: Literal["full", "chain"] = Field(
        "full",
        description="Extent of validation: `full` checks everything, `chain` everything except "
        "signatures, for trusted connectors.",
    )
    shards: int = Field(
        16, ge=1, le=1024, description="Number of state shards. It is fixed for the life of a checkpoint."
    )
    state_partitions: int = Field(
        4,
        ge=1,
        le=1024,
        description="Number of Spark's state partitions. It is fixed for the life of a checkpoint.",
    )
    lifts: tuple[Literal["add128", "add64", "xor64"], ...] = Field(
        ("add128",),
        min_length=1,
        description="Fingerprints that are kept of each block; `add64` and `xor64` are slow.",
    )
    max_offsets_per_trigger: int = Field(
        250_000, ge=1, description="Largest number of records in a micro-batch."
    )
    stall_seconds: float = Field(
        120.0,
        gt=0,
        description="A job that is behind and completes no micro-batch for this long is not ready.",
    )
    driver_memory_mb: int = Field(1536, ge=512, description="Heap of the Spark driver.")
    quick_start: bool = Field(False, description="Starts jobs sooner; they are slower once they are warm.")
    metrics_port: Port | dict[str, Port] | None = Field(
        None,
        description="Port of the Prometheus metrics; 0 takes a free one. A table has a port for "
        "each job or group that runs in a process of its own; a process of several takes the port of the "
        "first of its names that the table has. By default no metrics are served.",
        examples=[9101],
    )
    metrics_host: str = Field("127.0.0.1", description="Host on which the metrics are served.")
    version_vectors: VersionVectorsJobSection = Field(
        VersionVectorsJobSection(), description="The job `version-vectors`."
    )
    blocks: BlocksJobSection = Field(BlocksJobSection(), description="The job `blocks`.")
    coverage: CoverageJobSection = Field(CoverageJobSection(), description="The job `coverage`.")

    @field_validator("metrics_port")
    @classmethod
    def _check_names(cls, value: int | dict[str, int] | None) -> int | dict[str, int] | None:
        unknown = sorted(set(value).difference(runnable_names())) if isinstance(value, dict) else []
        if unknown:
            raise ValueError(f"{unknown[0]!r} is neither a job nor a group: see `culm job list`")
        return value

    def metrics_port_of(self, which: str) -> int | None:
        """Return the port of the process that runs jobs or groups; None if it serves no metrics.

        `which` has their names, joined by `+`. A table's port is that of the first name that it has.
        """
        ports = self.metrics_port
        if not isinstance(ports, dict):
            return ports
        return next((ports[name] for name in which.split("+") if name in ports), None)


def _check_peer(text: str) -> str:
    from culm_connectors.transport.libp2p.errors import MultiaddrError
    from culm_connectors.transport.libp2p.multiaddr import is_multiaddr, parse_multiaddr

    if not is_multiaddr(text):
        parse_address(text)
        return text
    try:
        parse_multiaddr(text)
    except MultiaddrError as error:
        raise ValueError(f"{error}: {error.hint}" if error.hint else str(error)) from error
    return text


class ConnectorSection(ConnectorLimits):
    """A connector process at a network edge."""

    listen: str = Field(
        "127.0.0.1:0",
        description="Address on which peers are served over QUIC (UDP), as HOST:PORT; `none` serves "
        "no peers. Port 0 takes a free one.",
    )
    dial: list[Annotated[str, AfterValidator(_check_peer)]] = Field(
        default_factory=list,
        description="Peers to keep a connection to, as HOST:PORT or as the multiaddr of a libp2p node.",
    )
    listen_libp2p: str | None = Field(
        None,
        description="Address on which libp2p nodes are served over QUIC (UDP), as HOST:PORT. By "
        "default nodes are not served.",
        examples=["0.0.0.0:2022"],
    )
    directory: Path | None = Field(
        None,
        description="Folder of the connector's key and index. By default it is below the stack's folder.",
        examples=["/srv/culm/connector"],
    )

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        if value != "none":
            parse_address(value)
        return value

    @field_validator("listen_libp2p")
    @classmethod
    def _check_listen_libp2p(cls, value: str | None) -> str | None:
        if value is not None:
            parse_address(value)
        return value


def _check_property(name: str) -> str:
    from culm_topics.kafka.clients import FIXED

    if name in FIXED:
        raise ValueError(f"{name} cannot be set: it {FIXED[name]}")
    return name


def _check_topic(name: str) -> str:
    from culm_topics.catalogue.topics import spec

    try:
        spec(name)
    except KeyError:
        raise ValueError(f"{name!r} is not a topic of the catalogue") from None
    return name


class CulmSettings(ProtocolSections, SettingsSection):
    """All settings with their defaults."""

    bootstrap: str | None = Field(
        None,
        description="Kafka bootstrap servers, as HOST:PORT,HOST:PORT. By default they are those of "
        "the local stack.",
        examples=["kafka-1:9092,kafka-2:9092"],
    )
    prefix: str = Field(
        "culm.", pattern=r"^[A-Za-z0-9._-]{0,64}$", description="Prefix of every topic's name."
    )
    replication_factor: int | None = Field(
        None,
        ge=1,
        le=MAX_COPIES,
        description="Copies of each partition of a new topic. By default the brokers' default applies.",
        examples=[3],
    )
    partitions: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Partitions of each new partitioned topic. By default the catalogue's numbers apply.",
        examples=[32],
    )
    min_insync_replicas: int | None = Field(
        None,
        ge=1,
        le=MAX_COPIES,
        description="Copies that must have a record before it is acknowledged. By default the "
        "brokers' default applies.",
        examples=[2],
    )
    topic_config: dict[Annotated[str, AfterValidator(_check_topic)], dict[str, str]] = Field(
        default_factory=dict,
        description="Kafka's properties of new topics, by the topic's name in the catalogue.",
    )
    block_bits: int = Field(
        8,
        ge=0,
        le=16,
        description="Number of first bits of a public key that make a block. Another number needs a "
        "new checkpoint of the job `blocks`.",
    )
    kafka: dict[Annotated[str, AfterValidator(_check_property)], str] = Field(
        default_factory=dict,
        description="Properties of librdkafka, including secrets, which are never printed.",
    )
    log_format: LogFormat = Field("text", description="Format of log lines on standard error.")
    stack: StackSection = Field(
        StackSection(), description="The local stack: a single-node Kafka and the checkpoints of its jobs."
    )
    job: JobSection = Field(JobSection(), description="The streaming jobs.")
    connector: ConnectorSection = Field(
        ConnectorSection(), description="A connector process at the network edge."
    )
    console: ConsoleSection = Field(ConsoleSection(), description="The web console of `culm console`.")

    @field_validator("bootstrap")
    @classmethod
    def _check_bootstrap(cls, value: str | None) -> str | None:
        for address in [] if value is None else value.split(","):
            match = _BROKER.fullmatch(address.strip())
            if match is None or int(match["port"] or 0) > 65_535:
                raise ValueError(f"{address!r} is not the address of a broker: write HOST:PORT,HOST:PORT")
        return value

    @field_validator("kafka", mode="before")
    @classmethod
    def _plain_values(cls, options: object) -> object:
        return _as_texts(options)

    @field_validator("topic_config", mode="before")
    @classmethod
    def _plain_topic_values(cls, config: object) -> object:
        if not isinstance(config, Mapping):
            return config
        return {topic: _as_texts(properties) for topic, properties in config.items()}


_BROKER: Final = re.compile(
    r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
)


def _as_texts(properties: object) -> object:
    """Convert values such as `true` and `10` to text, as Kafka's properties are."""
    if not isinstance(properties, Mapping):
        return properties
    return {name: _as_text(value) for name, value in properties.items()}


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value
