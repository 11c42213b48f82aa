"""Places of the source tree that the tests of the house read."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FLOORS: Final = ("models", "topics", "streaming", "connectors", "infra")
"""Folders of the packages, from below."""
