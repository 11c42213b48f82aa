"""Publishing (reference 3.3, 4.4, 5.4): blocks in any order, the orders of ids, what of them can be read.

`machine`: takes nodes, UCANs and shards, and says what waits, what is refused and how the orders changed.
`authority`: UCANs that are here, and verdicts on publishes at their receipts. `states`: what of a publish is
here.
"""
