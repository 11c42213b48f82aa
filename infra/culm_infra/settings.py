"""One settings tree for every command: a flag wins over ``CULM_*``, which wins over ``culm.toml``.

The file is the one that ``--config`` names, else the one that ``CULM_CONFIG`` names, else ``culm.toml`` in
the working directory, else ``culm.toml`` in the user's configuration directory. Nested values are spelled
with two underscores in the environment: ``CULM_CONNECTOR__LISTEN=0.0.0.0:4455``. Secrets come from the file
or the environment, never from a flag, and are never printed.
"""

from __future__ import annotations

import os
import tomllib
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from platformdirs import PlatformDirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.exceptions import SettingsError as MalformedSource

from culm_connectors.settings import ConnectorLimits
from culm_infra.errors import SettingsError
from culm_infra.protocols import ProtocolJobs, ProtocolSections
from culm_infra.sections.log_jobs import BlocksJobSection, CoverageJobSection, VersionVectorsJobSection
from culm_topics.catalogue.jobs import runnable_names
from culm_topics.topic_spec import MAX_COPIES

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

DIRECTORIES = PlatformDirs("culm", appauthor=False)
Port = Annotated[int, Field(ge=0, le=65_535)]
LogFormat = Literal["text", "json"]


class SettingsSection(BaseModel):
    """A table of the settings file; unknown names in it are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StackSection(SettingsSection):
    """The local stack: a single-node Kafka and the checkpoints of its jobs."""

    name: str = Field(
        "default", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="which of several stacks side by side"
    )
    directory: Path | None = Field(
        None, description="where its data lives; by default the user's data directory"
    )
    heap_mb: int | None = Field(
        None,
        ge=128,
        le=65_536,
        description="the broker's largest heap, in MiB; by default that of its last start, 512 at the first",
    )
    quick_start: bool = Field(False, description="the broker starts sooner and is slower once warm")


class JobSection(ProtocolJobs):
    """The streaming jobs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[*]", description="the Spark master")
    checkpoints: str | None = Field(
        None,
        description="a directory or any URL that Spark can write; by default below the stack's directory",
    )
    verify: Literal["full", "chain"] = Field(
        "full", description="full: everything; chain: all but the signature, for trusted connectors"
    )
    shards: int = Field(16, ge=1, le=1024, description="state shards; fixed for the life of a checkpoint")
    state_partitions: int = Field(
        4, ge=1, le=1024, description="Spark's state partitions; fixed for the life of a checkpoint"
    )
    lifts: tuple[Literal["add128", "add64", "xor64"], ...] = Field(
        ("add128",), min_length=1, description="fingerprints kept of each block; add64 and xor64 are slow"
    )
    max_offsets_per_trigger: int = Field(250_000, ge=1, description="the most records a micro-batch takes")
    stall_seconds: float = Field(
        120.0, gt=0, description="a job that is behind and ends no micro-batch for so long is not ready, in s"
    )
    driver_memory_mb: int = Field(1536, ge=512, description="the Spark driver's heap, in MiB")
    quick_start: bool = Field(False, description="jobs start sooner and are slower once warm")
    metrics_port: Port | dict[str, Port] | None = Field(
        None,
        description="Prometheus port; 0 takes a free one. A table has a port for each job or group that runs "
        "in a process of its own: {all = 9101, coverage = 9102}",
    )
    metrics_host: str = Field("127.0.0.1", description="the address that serves the metrics")
    version_vectors: VersionVectorsJobSection = Field(
        VersionVectorsJobSection(), description="the job version-vectors"
    )
    blocks: BlocksJobSection = Field(BlocksJobSection(), description="the job blocks")
    coverage: CoverageJobSection = Field(CoverageJobSection(), description="the job coverage")

    @field_validator("metrics_port")
    @classmethod
    def _check_names(cls, value: int | dict[str, int] | None) -> int | dict[str, int] | None:
        unknown = sorted(set(value) - runnable_names()) if isinstance(value, dict) else []
        if unknown:
            raise ValueError(f"{unknown[0]!r} is neither a job nor a group: see `culm job list`")
        return value

    def metrics_port_of(self, which: str) -> int | None:
        """Return the port of the process that runs a job or group; None if it serves no metrics."""
        return self.metrics_port.get(which) if isinstance(self.metrics_port, dict) else self.metrics_port


class ConnectorSection(ConnectorLimits):
    """A connector process at a network edge."""

    listen: str = Field("127.0.0.1:0", description="the UDP address and port to serve QUIC on")
    dial: list[str] = Field(
        default_factory=list, description="peers to keep a connection to: HOST:PORT, or a node's multiaddr"
    )
    listen_libp2p: str | None = Field(None, description="the UDP address and port to serve libp2p on")
    directory: Path | None = Field(None, description="key and index; by default below the stack's directory")


class CulmSettings(ProtocolSections, BaseSettings):
    """All settings with their defaults."""

    model_config = SettingsConfigDict(
        env_prefix="CULM_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    bootstrap: str | None = Field(None, description="Kafka bootstrap servers; by default the local stack's")
    prefix: str = Field(
        "culm.", pattern=r"^[A-Za-z0-9._-]{0,64}$", description="what every topic's name starts with"
    )
    replication_factor: int | None = Field(
        None,
        ge=1,
        le=MAX_COPIES,
        description="copies of each partition of a new topic; by default the brokers' default",
    )
    partitions: int | None = Field(
        None, ge=1, le=10_000, description="partitions of the log topics; by default the catalogue's"
    )
    min_insync_replicas: int | None = Field(
        None,
        ge=1,
        le=MAX_COPIES,
        description="copies that must have a record before it counts; else the broker's",
    )
    topic_config: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Kafka's properties of a topic, by its name in the catalogue"
    )
    block_bits: int = Field(
        8,
        ge=0,
        le=16,
        description="first bits of a public key that make a block; another number of them "
        "needs a new checkpoint of the job `blocks`",
    )
    kafka: dict[str, str] = Field(default_factory=dict, description="any librdkafka property, secrets too")
    log_format: LogFormat = Field("text", description="how log lines are written to standard error")
    stack: StackSection = StackSection()
    job: JobSection = JobSection()
    connector: ConnectorSection = ConnectorSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence: flag, environment, file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=_file.get())


_file: ContextVar[Path] = ContextVar("settings file")
"""The file from which the settings are being loaded."""


def config_file(named: Path | None = None) -> Path:
    """Return the path of the settings file: the given one, else the one that ``CULM_CONFIG`` names, else
    ``culm.toml`` in the working directory, else the user's.

    Only the user's file need not exist. Raises `SettingsError` if a named file does not exist.
    """
    variable = os.environ.get("CULM_CONFIG")
    if named is not None:
        if not named.is_file():
            raise SettingsError(f"--config names {named}, which is not a file", hint="create it")
        return named
    if variable:
        path = Path(variable)
        if not path.is_file():
            raise SettingsError(
                f"CULM_CONFIG names {path}, which is not a file", hint="create it or unset CULM_CONFIG"
            )
        return path
    here = Path("culm.toml")
    return here if here.is_file() else Path(DIRECTORIES.user_config_dir) / "culm.toml"


def load(*, config: Path | None = None, **flags: Any) -> CulmSettings:
    """Load the settings in force; ``flags`` that are None were not given. A section's flags are a dict.

    ``config`` is the settings file; by default see `config_file`. Raises `SettingsError` with the names of
    all wrong values.
    """
    file = config_file(config)
    token = _file.set(file)
    try:
        return CulmSettings(**_without_none(flags))
    except ValidationError as error:
        raise wrong_values(error) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        position = f"byte {error.start}"
        raise SettingsError(f"{file} is not UTF-8 at {position}", hint="save it as UTF-8") from error
    except MalformedSource as error:
        # The cause would show the value, which may be a secret.
        raise SettingsError(
            f"a variable of the environment is malformed: {error}",
            hint='tables and lists are JSON there: CULM_KAFKA={"security.protocol": "SSL"}',
        ) from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    finally:
        _file.reset(token)


def wrong_values(error: ValidationError, within: str = "") -> SettingsError:
    """Return an error that names all wrong values on one line; `within` is their section. Values are not
    repeated.
    """
    names = (
        ".".join(str(part) for part in (*filter(None, [within]), *item["loc"])) for item in error.errors()
    )
    lines = [f"{name}: {item['msg']}" for name, item in zip(names, error.errors(), strict=True)]
    return SettingsError(
        "; ".join(lines), hint="flags win over CULM_* variables, which win over culm.toml: look in all three"
    )


def _without_none(flags: dict[str, Any]) -> dict[str, Any]:
    present: dict[str, Any] = {}
    for name, value in flags.items():
        if isinstance(value, dict):
            inner = _without_none(value)
            if inner:
                present[name] = inner
        elif value is not None and value != []:
            present[name] = value
    return present


def named_values(flag: str, pairs: list[str], *, example: str) -> dict[str, str]:
    """Parse the ``NAME=VALUE`` pairs of a repeatable flag.

    Raises `SettingsError` with the flag and the pair: it is malformed, or its name was given before.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise SettingsError(f"{flag} {pair!r} is not NAME=VALUE", hint=f"for example {example}")
        if name in values:
            raise SettingsError(f"{flag} {name} is given twice")
        values[name] = value
    return values


def parse_kafka_options(pairs: list[str]) -> dict[str, str]:
    """Parse ``name=value`` pairs from ``--kafka-option``. Raises `SettingsError` for a secret."""
    from culm_topics.kafka.clients import is_secret

    options = named_values("--kafka-option", pairs, example="security.protocol=SASL_SSL")
    for name in filter(is_secret, options):
        raise SettingsError(
            f"{name} is a secret and is not taken from the command line",
            hint=f'put it in culm.toml under [kafka], or in CULM_KAFKA as JSON: {{"{name}": "..."}}',
        )
    return options


def redacted(settings: CulmSettings) -> dict[str, Any]:
    """Return the settings as plain data, with secrets replaced by asterisks."""
    from culm_topics.kafka.clients import REDACTED, is_secret

    shown = settings.model_dump(mode="json")
    shown["kafka"] = {name: REDACTED if is_secret(name) else value for name, value in settings.kafka.items()}
    return _tables_last(shown)


def _tables_last(table: dict[str, Any]) -> dict[str, Any]:
    """Order a table as a settings file has it: its own values first, then inner tables."""
    inner = {name: _tables_last(value) for name, value in table.items() if isinstance(value, dict)}
    return {name: value for name, value in table.items() if name not in inner} | inner


def stack_directory(settings: CulmSettings) -> Path:
    """Return the data directory of the local stack of these settings."""
    if settings.stack.directory is not None:
        return settings.stack.directory
    from culm_topics.kafka.local import stack_directory as of_name

    return of_name(settings.stack.name)


def resolve_kafka(settings: CulmSettings) -> KafkaSettings:
    """Return the Kafka to use: the given bootstrap servers, else the local stack if it is running.

    Raises `SettingsError` if there is neither.
    """
    from culm_topics.kafka.clients import KafkaSettings

    bootstrap = settings.bootstrap
    if bootstrap is None:
        from culm_infra.stack import Stack

        stack = Stack(stack_directory(settings))
        if not stack.status().running:
            raise stack.not_running()
        bootstrap = stack.bootstrap
    try:
        return KafkaSettings(
            bootstrap=bootstrap,
            prefix=settings.prefix,
            # librdkafka's own messages about an unreachable broker, twenty lines a second, help nobody.
            options={"log_level": "2"} | settings.kafka,
            replication_factor=settings.replication_factor,
            min_insync_replicas=settings.min_insync_replicas,
            partitions=settings.partitions,
            topic_config=settings.topic_config,
        )
    except ValidationError as error:
        raise wrong_values(error, "kafka") from error
