"""Operations on Chotki: bytes and values (``codecs``), whole ``replicas`` with their sessions."""

from culm_models.conform.chotki import codecs, replicas

OPERATIONS = (*codecs.OPERATIONS, *replicas.OPERATIONS)
