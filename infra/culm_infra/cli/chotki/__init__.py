"""``culm chotki``: classes and objects of Chotki, and how its replicas stand.

- `group`: the commands. `classes`, `new` and `edit` write, and share `writing`; `get`, `dump` and `status`
  read, and share `reading`. `edge`: `listen`, `connect` and `tap`, an edge that speaks with replicas.
"""
