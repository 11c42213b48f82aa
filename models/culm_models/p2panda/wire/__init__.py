"""Messages and their bytes (p2panda replication, "messages"; set reconciliation 2.1).

`messages` defines the messages, and `codec` translates them to bytes and back, also for streams.
`fast_decoder` reads messages of the usual shape in one go. `have_codec` and `items` (checks of CBOR items)
are parts of the codec. For set reconciliation: `reconciliation_codec`, and `compact` (binary keys between two
ends that offer it).
"""
