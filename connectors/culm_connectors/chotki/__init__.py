"""Chotki at the edge: sessions with replicas, and the local store that their diffs are answered from.

| module | what it holds |
|---|---|
| store | `ChotkiStore`: the merged state in lmdb, which moves from epoch to epoch; its snapshots |
| layout | keys and values of every database of its file |
| errors | what can go wrong |
"""
