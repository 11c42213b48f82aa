"""Operations on DAG replication: CIDs, values and CARs (``blocks``).

``arguments`` reads what they have in common, and answers a bad argument with
``conform.request``, as this protocol alone does.
"""

from culm_models.conform.dag import blocks

OPERATIONS = (*blocks.OPERATIONS,)
