"""What the door answers, by what is asked for.

`shards`, `nodes` (with publishes, and what is lacking), `published` (with events); `schemas`: what they say
in JSON. `gateway`: reads by CID, as a block, a CAR, or as the `content` at a path, which share `reading`.
"""
