"""Sizes of a local store's file, in bytes. Light to import, for settings."""

from __future__ import annotations

from typing import Final

DEFAULT_MAP_SIZE_BYTES: Final = 64 * 1024**3
"""The initial size of a file's address space."""
MAX_SIZE_BYTES: Final = 1 << 46
