"""A channel over a restart: `snapshot` (all of it), `journal` (changes since), `packed` (their outline)."""
