"""Sizes of a local store's file, in bytes. Light to import, for settings."""

from __future__ import annotations

from typing import Final

DEFAULT_MAP_SIZE_BYTES: Final = 64 * 1024**3
"""The address space that a file begins with."""
MAX_SIZE_BYTES: Final = 1 << 46
