"""A channel over a restart: `snapshot` (all of it), `journal` (changes since, and the outline of both)."""
