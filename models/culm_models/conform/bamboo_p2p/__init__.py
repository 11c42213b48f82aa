"""Operations on Bamboo Point-2-Point: `codecs` for its bytes and for bymux, `peer` for peers.

`messages` has the JSON forms of messages.
"""

from culm_models.conform.bamboo_p2p import codecs, peer

OPERATIONS = (*codecs.OPERATIONS, *peer.OPERATIONS)
