"""Operations on DAG replication: values and CIDs (``blocks``), ``cars``,
``ucans``, ``replicas``, ``orders``.

``arguments`` reads what they have in common, and answers a bad argument with
``conform.request``, as this protocol alone does.
"""

from culm_models.conform.dag import blocks, cars, orders, replicas, ucans

OPERATIONS = (
    *blocks.OPERATIONS,
    *cars.OPERATIONS,
    *replicas.OPERATIONS,
    *ucans.OPERATIONS,
    *orders.OPERATIONS,
)
