"""What two ends of DAG replication say to each other (reference 6).

`messages`: the eight kinds. `codec`: lists of DAG-CBOR and their rules, and cutting a stream into them.
"""
