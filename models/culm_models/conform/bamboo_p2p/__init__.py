"""Operations on Bamboo Point-2-Point: `codecs` for its bytes, `bymux` for an end of that, `peer` for peers.

`messages` is how messages look as JSON.
"""

from culm_models.conform.bamboo_p2p import bymux, codecs, peer

OPERATIONS = (*codecs.OPERATIONS, *bymux.OPERATIONS, *peer.OPERATIONS)
