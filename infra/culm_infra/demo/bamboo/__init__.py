"""The demo of Bamboo Point-2-Point: partial, live and payload-frugal replication, in scenes with figures.

- ``run``: the scenes one after the other; ``scenes``: each of them.
- ``size``: how large it is. ``stage``: peers over folders, a long log, processes that print JSON.
- ``backbone``: two edges over a real broker.
- ``logs``: what is in the logs, and parts of them.
- ``json_process``: peers as processes of their own; ``device``: one with little memory.
"""
