"""Replicas of DAGs in memory under random orders, losses and lies, chosen by a seed.

`scenario`: the nodes and shards of one run. `replica`: an `ExchangeStore` in memory, with its verdicts.
`node`: one end of a connection. `simulator`: many of them, and what must hold. `liar`: an end that lies.
"""
