"""Operations on DAG replication: values and CIDs (``blocks``), ``cars``,
``ucans``, ``replicas``, ``orders``,
``messages``, ``walks``, ``publishing``, ``files``.

``arguments`` reads what they have in common, and answers a bad argument with
``conform.request``, as this protocol alone does.
"""

from culm_models.conform.dag import blocks, cars, files, messages, orders, publishing, replicas, ucans, walks
from culm_models.conform.dag.arguments import with_request_errors

_MODULES = (blocks, cars, replicas, ucans, orders, messages, walks, publishing, files)
OPERATIONS = tuple(with_request_errors(operation) for module in _MODULES for operation in module.OPERATIONS)
