"""What peers are sent beyond the diff of their session (reference 9.2, rules 6 to 9).

`packet_tail` holds the packets that the newest epoch does not have, `peer_holding` what one peer holds and
lacks, and `peer_feed` makes of both what goes to that peer next, no faster than it reads.
"""
