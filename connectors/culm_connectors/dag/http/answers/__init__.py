"""What the door answers, by what is asked for.

`shards`, `nodes` (with publishes, and what is lacking), `published`, `events`; `schemas`: what they say in
JSON. `gateway`: reads by CID, as a block, as one of the `cars`, or as the `content` at a path, which share
`reading`.
"""
