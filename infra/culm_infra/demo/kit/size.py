"""How large a demo is: options of the command line with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

Timeout = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSize:
    """What each demo adds fields to."""

    timeout: Timeout = 120.0
