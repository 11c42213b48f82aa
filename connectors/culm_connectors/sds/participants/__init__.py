"""Participants at the other end of an edge connection.

`calling` (dial, be greeted, speak, dial again); `client`: the thin client of a hosted participant; `peer`:
the reference full participant, over a `participant` without a network, whose `state` is in a folder and
whose timers count `passing_time`.
"""
