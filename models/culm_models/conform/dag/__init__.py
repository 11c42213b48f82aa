"""Operations on DAG replication, one module for each group of operations.

``blocks`` has values and CIDs. The others are ``cars``, ``ucans``, ``replicas``, ``orders``, ``messages``,
``walks``, ``publishing`` and ``files``. ``arguments`` reads their common arguments, and answers invalid
arguments with ``conform.request``, which only this protocol does.
"""

from culm_models.conform.dag import blocks, cars, files, messages, orders, publishing, replicas, ucans, walks
from culm_models.conform.dag.arguments import with_request_errors

_MODULES = (blocks, cars, replicas, ucans, orders, messages, walks, publishing, files)
OPERATIONS = tuple(with_request_errors(operation) for module in _MODULES for operation in module.OPERATIONS)
