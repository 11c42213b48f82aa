"""The console in tests: served in this process, and targets of every kind.

- `opened`: the tables of a deployment, and their pages once all is read; `block_records`: what they show.
"""
