"""The topics of Chotki.

- `catalogue`: the topics; `records/`: their keys and values.
- `consumer`: objects and their changes, for programs. `state_reader` reads `chotki.state` epoch by epoch into
  a `state_file`; `objects` finds classes and objects in it, by ID and by their `global_names`, and `values/`
  converts a field's value to Python and back.
- `parquet/`: objects as Parquet, one table per class.
- `writer`: writes a program's changes. `changes` are the changes, `packet_maker` makes packets of one source
  from them, on top of its `own_fields`, and `sources` assigns sources to owners.
- `operations`: the progress of peers, and sessions.
- `errors`: the errors between a program and its objects.
"""
