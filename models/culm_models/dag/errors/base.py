"""The base of every error of this room."""

from culm_models.errors import ModelError


class DagError(ModelError, code="dag"):
    """Bytes or facts that break a rule of DAG replication."""
