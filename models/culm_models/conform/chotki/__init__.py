"""Operations on Chotki: ``codecs`` for bytes and values, ``replicas`` for replicas with their sessions."""

from culm_models.conform.chotki import codecs, replicas

OPERATIONS = (*codecs.OPERATIONS, *replicas.OPERATIONS)
