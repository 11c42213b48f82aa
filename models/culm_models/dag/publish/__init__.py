"""Publishing (reference 3.3, 4.4, 5.4): blocks in any order, the orders of ids, the states of publishes.

`machine`: takes nodes, UCANs and shards; reports what waits, what is refused and how the orders changed.
`authority`: the received UCANs, and the authorisation of publishes at their times of receipt. `states`: how
much of a publish is present.
"""
