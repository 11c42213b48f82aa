"""What two ends of DAG replication say to each other (reference 6).

`messages`: the eight kinds. `codec`: lists of DAG-CBOR and their rules. `frames`: cutting a stream into them.
"""
