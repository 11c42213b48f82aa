"""The merged state at this edge, as of the newest whole epoch (reference 9.2, rules 6 and 7).

`store` keeps it in lmdb (`layout`: its keys and values) and gives a `snapshot` to each session;
`state_follower` brings it up to date from Kafka, and `staged_state` holds what is read until its epoch is
whole.
"""
