"""Conversations written down by hand from the specification, and what reads and plays them.

`script` is the language they are written in, `wires` writes the bytes of a message from its fields with
nothing of Culm's codec or filters, `delivery` and `buffers` are the conversations. `python -m
tests.models.sds.conversations` writes them to tests/vectors/sds, where the README tells how to read them.
`player` plays the files.
"""
