"""Participants at the other end of an edge connection.

- `calling`: dial, wait for the greeting, exchange frames, dial again.
- `client`: the thin client of a hosted participant.
- `peer`: the reference full participant; `participant`: the same without a network.
- `state`: its state in a folder; `passing_time`: the time of its timers.
"""
