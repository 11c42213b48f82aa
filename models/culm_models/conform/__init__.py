"""The line protocol behind ``culm conform``: operations on the models, one JSON object per line.

- ``operation``: the class of operations, and the state machines that operations open.
- ``arguments``: strict reading of arguments, with errors that name them.
- ``forms``: the JSON forms of messages, events and settings, derived from the annotations of their classes.
- ``dispatch``: answers one line with one line, and never raises; the table of operations.
- ``bamboo``: varu64, YASMF, lipmaa, entries. ``rbsr``: set reconciliation as published.
- ``p2panda``, ``sds``, ``chotki``, ``bamboo_p2p``, ``dag``: a folder for each protocol; the table of
  ``dispatch`` contains its ``OPERATIONS``.

The package has no logic of its own: the models compute every answer. See docs/conform.md.
"""
