"""``culm chotki``: classes and objects of Chotki, and how its replicas stand.

- `group`: the commands, one module each. `writing`, `reading`: what those that write, or read, share.
"""
