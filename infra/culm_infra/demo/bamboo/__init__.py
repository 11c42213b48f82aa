"""The demo of Bamboo Point-2-Point: partial, live and payload-frugal replication, in scenes with figures.

- ``run``: the scenes one after the other; ``scenes``: each of them.
- ``size``: the options of the demo. ``stage``: peers with folders, their logs, processes that print JSON.
- ``json_process``: peers as separate processes; ``device``: a peer with little memory.
"""
