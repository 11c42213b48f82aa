"""The options of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from culm_infra.demo.kit.size import DemoSize


@dataclass(frozen=True, slots=True, kw_only=True)
class P2pandaDemoSize(DemoSize):
    """Options of the demo. Half of the `live` entries are published before the kill, two fifths around it."""

    peers: Annotated[int, typer.Option(min=2, max=64, help="How many peers, half at each edge.")] = 4
    entries: Annotated[int, typer.Option(min=1, max=1_000_000, help="Entries in the made histories.")] = 3_000
    live: Annotated[int, typer.Option(min=0, max=100_000, help="Entries published live.")] = 400
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Makes the same histories again.")] = 7
