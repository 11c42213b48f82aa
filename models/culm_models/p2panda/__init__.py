"""p2panda replication, free of I/O: its data, its messages and its session rules.

Data: `schema_id` (names of schemas and their order), `document` (document and view ids), `operation` (what
a payload says; `operation_reader` takes its unusual spellings), `checks` (an entry with its operation,
checked together). Messages: `messages`, `codec`, `stream`; those of set reconciliation in
`reconciliation_messages` and `reconciliation_codec`. Sessions: `peer` over a `store`. Errors share the base
in `errors`.
"""
