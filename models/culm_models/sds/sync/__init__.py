"""Sync messages (SDS, "periodic sync").

`schedule` (when, and among how many), `names` (which messages they name).
"""
