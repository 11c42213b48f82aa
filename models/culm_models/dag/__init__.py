"""DAG replication and publishing, free of I/O: content-addressed graphs, joins, authorised publishing.

`blocks/`: CIDs, hashes and codecs. `car/`: blocks in a file. `errors/` has a class for each code.
`bounds`: what is too large.
"""
