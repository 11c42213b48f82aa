"""Operations on DAG replication: values and CIDs (``blocks``), ``cars``,
``ucans``, ``replicas``, ``orders``,
``messages``, ``walks``, ``publishing``, ``files``.

``arguments`` reads what they have in common, and answers a bad argument with
``conform.request``, as this protocol alone does.
"""

from culm_models.conform.dag import blocks, cars, files, messages, orders, publishing, replicas, ucans, walks

OPERATIONS = (
    *blocks.OPERATIONS,
    *cars.OPERATIONS,
    *replicas.OPERATIONS,
    *ucans.OPERATIONS,
    *orders.OPERATIONS,
    *messages.OPERATIONS,
    *walks.OPERATIONS,
    *publishing.OPERATIONS,
    *files.OPERATIONS,
)
