"""The options of the demo, and the names of its scenes, which are loaded when they are played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from culm_infra.demo.kit.size import DemoSize

SCENES: Final = (
    *("sparse", "backfill", "both-ways", "greedy", "large", "live", "credit", "failover", "device"),
    "edges",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BambooDemoSize(DemoSize):
    """Options of the demo. `scenes`: names of the scenes to play; None: all."""

    entries: Annotated[int, typer.Option(min=200, max=10_000_000, help="Entries of the long log.")] = 100_000
    payload_mb: Annotated[int, typer.Option(min=2, max=1_000, help="Megabytes of the large payload.")] = 50
    live_entries: Annotated[
        int, typer.Option(min=1, max=100_000, help="Entries that are published live.")
    ] = 200
    scenes: Annotated[
        list[str] | None,
        typer.Option(
            "--scene",
            help=f"Only this scene: {', '.join(SCENES)}. Repeatable.",
            autocompletion=lambda incomplete: [name for name in SCENES if name.startswith(incomplete)],
        ),
    ] = None
