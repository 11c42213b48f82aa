"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
StackDirectory = Annotated[
    Path | None, typer.Option("--dir", help="The stack's directory; by default the user's data directory.")
]
StackName = Annotated[str | None, typer.Option("--name", help="Which of several stacks side by side.")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Serve Prometheus metrics; 0 takes a free port."),
]
QuickStart = Annotated[
    bool | None,
    typer.Option("--quick-start/--long-run", help="Start Java sooner, slower once warm: for short runs."),
]
LogFormat = Annotated[str | None, typer.Option("--log-format", help="Log lines as `text` or `json`.")]
