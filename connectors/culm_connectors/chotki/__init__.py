"""Chotki at the edge: sessions with replicas, and the local store that their diffs are answered from.

| module | what it holds |
|---|---|
| store | `ChotkiStore`: the merged state in lmdb, which moves from epoch to epoch; its snapshots |
| layout | keys and values of every database of its file |
| state_follower | reads `chotki.state` into the store, epoch by epoch |
| staged_state | records that wait until their epoch is whole |
| errors | what can go wrong |
"""
