"""Messages and their bytes (p2panda replication, "messages"; set reconciliation 2.1).

`messages` and `codec` (also of bytes as they come), `fast_decoder` (messages of the usual shape in one
go). `have_codec` and `items` (kinds of items as they are read) are parts of the codec. Set reconciliation:
`reconciliation_codec`, `compact` (binary keys between two ends that offer it).
"""
