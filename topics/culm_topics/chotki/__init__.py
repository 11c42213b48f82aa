"""The topics of Chotki.

- `catalogue`: the topics; `records/`: their keys and values.
- `consumer`: objects and their changes, for programs. `state_reader` reads `chotki.state` epoch by epoch into
  a `state_file`; `objects` finds classes and objects in it, by ID and by their `global_names`, and `values/`
  says a field's value in Python.
- `parquet/`: objects as Parquet, one table a class.
- `writer`: what programs write. `changes` are what they say, `packet_maker` makes packets of one source of
  them, on top of its `own_fields`, and `sources` decides whose a source is.
- `operations`: how far peers are, and which sessions there are.
- `errors`: what goes wrong between a program and its objects.
"""
