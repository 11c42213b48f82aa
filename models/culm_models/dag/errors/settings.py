"""What is wrong with the verdict settings of a deployment (R28)."""

from culm_models.dag.errors.base import DagError


class VerdictMalformed(DagError, code="dag.verdict"):
    """Verdict settings that are no canonical map of exactly their fields."""


class VerdictDiffers(DagError, code="dag.verdict_differs"):
    """A process whose verdict settings are not those of its deployment."""

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields
        """The fields that differ, a bound as `bounds.node`."""


class VerdictUnsupported(DagError, code="dag.verdict_unsupported"):
    """Verdict settings that this process cannot act on, as for want of a hash function."""
