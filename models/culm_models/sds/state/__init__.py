"""Restarts of a channel: `snapshot` (the whole state), `journal` (changes since, and their format)."""
