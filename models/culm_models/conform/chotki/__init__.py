"""Operations on Chotki: whole ``replicas`` with their sessions."""

from culm_models.conform.chotki import replicas

OPERATIONS = (*replicas.OPERATIONS,)
