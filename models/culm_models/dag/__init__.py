"""DAG replication and publishing, free of I/O: content-addressed graphs, joins, authorised publishing.

`blocks/`: CIDs, hashes and codecs. `errors/` has a class for each code.
"""
