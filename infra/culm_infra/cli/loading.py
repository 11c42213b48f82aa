"""What tables of the command line name, `module:attribute` below `culm_infra.cli`, loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """The attribute that an entry of a table names."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"culm_infra.cli.{module}"), attribute)
