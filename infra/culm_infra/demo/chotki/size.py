"""The options of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from culm_infra.demo.kit.size import DemoSize


@dataclass(frozen=True, slots=True, kw_only=True)
class ChotkiDemoSize(DemoSize):
    """Options of the demo. An edge and the job are killed during a third of the rounds."""

    objects: Annotated[
        int, typer.Option(min=3, max=100_000, help="Objects that there are at the beginning.")
    ] = 30
    rounds: Annotated[int, typer.Option(min=3, max=10_000, help="Rounds in which all edit every type.")] = 30
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Edits the same again.")] = 7
