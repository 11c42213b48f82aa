"""Options that several commands share, each declared once; related options are grouped in a dataclass."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_topics.kafka.clients import KafkaSettings

Name = TypeVar("Name", bound=str | bytes)
Value = TypeVar("Value")

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="Kafka bootstrap servers; else CULM_BOOTSTRAP, else the local stack.",
    ),
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="NAME=VALUE",
        help="Any librdkafka property; repeatable. Secrets go in culm.toml or CULM_KAFKA.",
    ),
]
Prefix = Annotated[
    str | None, typer.Option("--prefix", help="What every topic's name starts with (culm. by default).")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The settings file; else CULM_CONFIG, ./culm.toml, or that of the user's configuration.",
    ),
]
StackChoice = Annotated[
    str | None,
    typer.Option(
        "--stack",
        metavar="NAME|DIR",
        help="The local stack: its name, or its directory if there is a slash; else CULM_STACK__NAME.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Give up after so long without an answer."),
]
KafkaTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        help="Give up after so long without an answer of Kafka; what waits for records is not limited.",
    ),
]
AnswerTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        help="Give up after so long without an answer; by default at the first failure.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Serve Prometheus metrics; 0 takes a free port."),
]
QuickStart = Annotated[
    bool | None,
    typer.Option("--quick-start/--long-run", help="Start Java sooner, slower once warm: for short runs."),
]
LogFormat = Annotated[str | None, typer.Option("--log-format", help="Log lines as `text` or `json`.")]
DatagramSize = Annotated[str | None, typer.Option("--datagram-size", help="1200, 1452, 8900 bytes, or auto.")]
SyncMode = Annotated[
    str | None,
    typer.Option(
        "--sync-mode", metavar="auto|ranges|heights", help="How sessions of ours find out what differs."
    ),
]
Latency = Annotated[
    bool, typer.Option("--latency", help="Set reconciliation in fewer rounds, for more bytes.")
]
OnlySchemas = Annotated[
    list[str] | None, typer.Option("--schema", metavar="SCHEMA_ID", help="Only this schema; repeatable.")
]
ExpectedPeer = Annotated[
    str | None, typer.Option("--expect", metavar="PEER_ID", help="Refuse any other peer at that address.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFlags:
    """The settings file of a command."""

    config: ConfigFile = None

    def load(self, **flags: Any) -> CulmSettings:
        """Load all settings: these flags, further flags, the environment, the file.

        A section's flags are a dict. Raises `SettingsError`.
        """
        from culm_infra.settings import load

        return load(config=self.config, **self.as_flags(), **flags)

    def as_flags(self) -> dict[str, Any]:
        """Return the settings that these flags set."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFlags(SettingsFlags):
    """The local stack that a command uses."""

    stack: StackChoice = None

    def load(self, **flags: Any) -> CulmSettings:
        """Load all settings; `flags` may set further ones of the section `stack`. Raises `SettingsError`."""
        stack = stack_of(self.stack) | flags.pop("stack", {})
        return SettingsFlags.load(self, stack=stack, **flags)

    def command(self, line: str) -> str:
        """Return a command line for this stack, to be pasted into a shell."""
        return line if self.stack is None else f"{line} --stack {shlex.quote(self.stack)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags(StackFlags):
    """The Kafka cluster of a program that runs until it is stopped, and waits for Kafka while it is away."""

    bootstrap: Bootstrap = None
    prefix: Prefix = None
    kafka_option: KafkaOption = None

    def as_flags(self) -> dict[str, Any]:
        """Return the settings of the cluster. Raises `SettingsError` for a secret among the options."""
        from culm_infra.settings import parse_kafka_options

        options = parse_kafka_options(self.kafka_option or [])
        return {"bootstrap": self.bootstrap, "prefix": self.prefix, "kafka": options}

    def command(self, line: str) -> str:
        """Return a command line for the same topics of this cluster, to be pasted into a shell."""
        line = StackFlags.command(self, line)
        if self.bootstrap is not None:
            line = f"{line} --bootstrap {shlex.quote(self.bootstrap)}"
        return line if self.prefix is None else f"{line} --prefix {shlex.quote(self.prefix)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFlags(ClusterFlags):
    """The Kafka cluster of a command that ends without it."""

    timeout_s: KafkaTimeout = None

    def settings(self, **flags: Any) -> KafkaSettings:
        """Return the settings of a Kafka cluster that answers.

        Says within a second what it waits for. Raises `SettingsError`, and `KafkaFailure` if the cluster does
        not answer within the timeout.
        """
        from culm_infra.cli.kit.reaching import reach
        from culm_infra.settings import resolve_kafka

        kafka = resolve_kafka(self.load(**flags))
        reach(kafka, self.patience_s)
        return kafka

    @property
    def patience_s(self) -> float:
        """Seconds to wait for an answer."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s


DEFAULT_TIMEOUT_S: Final = 30.0
KAFKA_FLAGS: Final = frozenset({"bootstrap", "prefix", "kafka_option"})
"""Parameters that a command refuses if it uses no Kafka this time."""


def stack_of(choice: str | None) -> dict[str, Any]:
    """Return the settings of `stack` that ``--stack`` sets: a directory if it has a slash, else a name."""
    if choice is None:
        return {}
    if os.sep in choice or choice in (os.curdir, os.pardir):
        return {"directory": Path(choice)}
    from culm_topics.kafka.local import stack_directory

    # A flag wins over a directory that the settings file names.
    return {"name": choice, "directory": stack_directory(choice)}


def on_the_line(context: typer.Context, names: Collection[str]) -> list[str]:
    """Return those of these parameters that are on the command line, as they are spelled there.

    `names` are parameter names of the command's function.
    """
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and _source(context, parameter.name) == "COMMANDLINE"
    ]


def _source(context: typer.Context, name: str) -> str | None:
    source = context.get_parameter_source(name)
    return None if source is None else source.name


def refuse(context: typer.Context, names: Collection[str], why: str) -> None:
    """Raise `typer.BadParameter` if one of these parameters is given, because it has no effect here."""
    for spelled in on_the_line(context, names):
        raise typer.BadParameter(why, param_hint=spelled)


def words(*choices: str) -> Callable[[str], list[str]]:
    """Return a completer for these words."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def from_hex(text: str, what: str) -> bytes:
    """Parse hex. Raises `typer.BadParameter`."""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text[:80]!r} is not hexadecimal", param_hint=what) from error


def optional_hex(text: str | None, what: str) -> bytes | None:
    """Parse hex; None stays None. Raises `typer.BadParameter`."""
    return None if text is None else from_hex(text, what)


def public_key(text: str, what: str) -> bytes:
    """Parse a public key of 64 hex digits. Raises `typer.BadParameter`."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise typer.BadParameter(f"{text[:80]!r} is not a public key: 64 hexadecimal digits", param_hint=what)
    return key


def named_once(pairs: Iterable[tuple[Name, Value]], what: str) -> dict[Name, Value]:
    """Return the pairs of a repeatable parameter as a mapping. Raises `typer.BadParameter` for a repeated
    name.
    """
    values: dict[Name, Value] = {}
    for name, value in pairs:
        if name in values:
            shown = name.hex() if isinstance(name, bytes) else name[:80]
            raise typer.BadParameter(f"{shown} is given twice", param_hint=what)
        values[name] = value
    return values
