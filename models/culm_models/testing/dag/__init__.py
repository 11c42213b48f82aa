"""Replicas of DAGs in memory under random orders, losses and lies, chosen by a seed.

`scenario` draws the nodes and shards of one run. `replica` is an `ExchangeStore` in memory that validates
what it stores. `node` is one end of a connection. `simulator` runs many of them and checks invariants. `liar`
is an end that lies.
"""
