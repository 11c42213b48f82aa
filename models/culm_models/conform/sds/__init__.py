"""Operations on SDS: ``messages`` and filters, the state machine of a ``channel``, and its ``settings``."""

from culm_models.conform.sds import channel, messages

OPERATIONS = (*messages.OPERATIONS, *channel.OPERATIONS)
