"""What the door answers, by what is asked for.

`shards`, `nodes` (with publishes, and what is lacking), `gateway`, `published`, `events`; `schemas`: what
they say in JSON.
"""
