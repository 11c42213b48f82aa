"""The line protocol behind ``culm conform``: the models, driven by one JSON object a line.

- ``operation``: what an operation is, and the state machines that operations open.
- ``arguments``: reading arguments strictly, with errors that name them.
- ``forms``: the JSON forms of messages, events and settings, derived from the annotations of their classes.
- ``dispatch``: a line in, a line out; the table of operations; never an exception.
- ``bamboo``: varu64, YASMF, lipmaa, entries. ``rbsr``: set reconciliation as published.
- ``p2panda``, ``sds``, ``chotki``, ``bamboo_p2p``, ``dag``: a folder a protocol; its ``OPERATIONS`` stand in
  the table of ``dispatch``.

No logic of its own: every answer is what the models say. See docs/conform.md.
"""
