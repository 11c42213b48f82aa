"""Sync messages (SDS, "periodic sync").

`schedule` (when), `names` (which messages they name), `group_size` (among how many), `summary` (what a driver
asks of a channel again and again).
"""
