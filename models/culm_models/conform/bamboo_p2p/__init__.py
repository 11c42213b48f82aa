"""Operations on Bamboo Point-2-Point: its codecs, a bymux end, and whole peers."""

from culm_models.conform.bamboo_p2p import bymux, codecs, peer

OPERATIONS = (*codecs.OPERATIONS, *bymux.OPERATIONS, *peer.OPERATIONS)
