"""The options of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from culm_infra.demo.kit.size import DemoSize, Timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsDemoSize(DemoSize):
    """Options of the demo. A third of the `messages` are sent while an edge is cut off, a third around the
    kill.
    """

    participants: Annotated[
        int, typer.Option(min=2, max=12, help="How many in each channel; half are hosted.")
    ] = 5
    messages: Annotated[int, typer.Option(min=3, max=100_000, help="Messages sent in each channel.")] = 60
    loss: Annotated[float, typer.Option(min=0, max=0.5, help="Share of messages that the network loses.")] = (
        0.2
    )
    cut: Annotated[
        float, typer.Option(min=0, help="Seconds for which one edge's participants are cut off.")
    ] = 10.0
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Says the same again.")] = 7
    timeout: Timeout = 180.0
