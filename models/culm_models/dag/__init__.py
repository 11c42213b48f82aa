"""DAG replication and publishing, free of I/O: content-addressed graphs, joins, authorised publishing.

`blocks/`: CIDs, hashes and codecs. `car/`: CAR files. `ucan/`: authorisation to publish. `replica/`: nodes
and the states that result from them. `order/`: the total order of publishes. `publish/`: the state machine
that combines these. `wire/`: messages. `walk/`: the blocks of a DAG that are present. `sharding`: splitting a
DAG into shards. `errors`: one class per code. `exchange/`: a connection. `unixfs/`: files as blocks.
`paths/`: paths into a DAG and the blocks on them. `bounds`: limits. `validation_rules`: the settings that
decide validation.

Section numbers (5.3) and rule numbers (R26) in this package refer to docs/dag-conformance.md.
"""
