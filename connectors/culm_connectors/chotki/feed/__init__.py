"""Changes that peers are sent after the diff of their session (reference 9.2, rules 6 to 9).

`packet_tail` holds the packets that the newest epoch does not have, `peer_holding` the entries that one peer
holds or is missing, and `peer_feed` produces the next records for a peer, no faster than it reads.
"""
