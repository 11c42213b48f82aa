"""Options that every demo has, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

Timeout = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSize:
    """Options of every demo; each demo adds its own fields."""

    timeout: Timeout = 120.0
