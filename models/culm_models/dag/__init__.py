"""DAG replication and publishing, free of I/O: content-addressed graphs, joins, authorised publishing.

`blocks/`: CIDs, hashes and codecs. `car/`: blocks in a file. `ucan/`: who may publish. `replica/`: nodes
and the states they make. `order/`: the one order of publishes. `publish/`: all of these together. `wire/`:
messages. `walk/`: what is here of a DAG. `sharding`: cutting one up. `errors` has a class for each code.
`exchange/`: a connection. `unixfs/`: files as blocks. `paths/`: ways into a DAG, and blocks that
answer them. `bounds`: what is too large. `verdict`: what of the settings decides verdicts.

Numbers of sections (5.3) and of rules (R26) in this room are those of docs/dag-conformance.md.
"""
