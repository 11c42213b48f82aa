"""The demo of Bamboo Point-2-Point: partial, live and payload-frugal replication, in scenes with figures.

- ``run``: the scenes one after the other; ``scenes``: each of them.
- ``size``: how large it is. ``stage``: peers over folders, what is in their logs, processes that print JSON.
- ``json_process``: peers as processes of their own; ``device``: one with little memory.
"""
