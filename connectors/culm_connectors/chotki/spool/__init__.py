"""What an edge keeps on disk for a while: nothing of it outlives the process.

`room` is the folder and its bound. `chunk` keeps entries in memory or in a file; `sync_spool` the fields of a
diff that is not whole, `unacknowledged` what was taken from a peer and Kafka has not acknowledged.
"""
