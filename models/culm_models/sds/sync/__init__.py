"""Sync messages (SDS, "periodic sync").

`schedule` (when, among how many, and who answers content), `names` (which messages they name).
"""
