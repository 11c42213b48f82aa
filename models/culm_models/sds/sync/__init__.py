"""Sync messages (SDS, "periodic sync").

`schedule` decides when a sync is sent, among how many, and who answers content; `names` selects the messages
that it names.
"""
