"""Payloads of entries: operations, their ids and their schemas (p2panda, "operations", "documents").

`operation` reads the usual encoding of operations quickly and checks an entry with its operation. `reader`
reads the unusual encodings. `values` reads and writes the value of one field. `schema` checks whether an
operation's fields match its schema. `identifiers` has the ids of schemas and their order, and the ids of
documents and views.
"""
