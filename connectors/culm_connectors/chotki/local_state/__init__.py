"""The merged state at this edge, as of the newest complete epoch (reference 9.2, rules 6 and 7).

`store` keeps it in lmdb (`layout`: its keys and values) and provides a `snapshot` to each session.
`state_follower` updates it from Kafka, and `staged_state` holds records until their epoch is complete.
"""
