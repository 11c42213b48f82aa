"""Messages between two ends of DAG replication (reference 6).

`messages`: the eight types. `codec`: their encoding as lists in DAG-CBOR, and the splitting of a stream.
"""
