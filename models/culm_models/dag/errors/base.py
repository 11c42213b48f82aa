"""The base of every error of this room."""

from typing import ClassVar

from culm_models.errors import ModelError


class DagError(ModelError):
    """Bytes or facts that break a rule of DAG replication."""

    code: ClassVar[str] = "dag"
