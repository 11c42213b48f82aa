"""Replicas: nodes that each change a prior state, and what a set of them says.

`node`: the kinds of nodes. `codec`: their bytes and their rules. `store`: nodes in any order, what
they lack, what falls, heads, states and the one join.
"""
