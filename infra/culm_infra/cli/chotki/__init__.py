"""``culm chotki``: classes and objects of Chotki, and how its replicas stand.

- `group`: the commands. `classes`, `new` and `edit` write, and share `writing`; `get`, `dump`, `status` and
  `verify` read, and share `reading`; `dump` and `verify` also read a running `replica`.
- `edge`: `listen`, `connect` and `tap`, an edge that speaks with replicas.
- `sources`: whose source numbers are, and to `retire` one.
"""
