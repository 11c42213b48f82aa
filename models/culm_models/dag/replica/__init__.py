"""Replicas: nodes that each change a prior state, and the states that result from a set of nodes.

`node`: the types of nodes. `codec`: their encoding and rules. `store`: nodes in any order, with missing
parents, refused descendants, heads, states and the join of heads.
"""
