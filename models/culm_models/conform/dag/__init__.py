"""Operations on DAG replication: values and CIDs (``blocks``), ``cars``.

``arguments`` reads what they have in common, and answers a bad argument with
``conform.request``, as this protocol alone does.
"""

from culm_models.conform.dag import blocks, cars

OPERATIONS = (*blocks.OPERATIONS, *cars.OPERATIONS)
