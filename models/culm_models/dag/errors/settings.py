"""What is wrong with the verdict settings of a deployment (R28)."""

from typing import ClassVar

from culm_models.dag.errors.base import DagError


class VerdictMalformed(DagError):
    """Verdict settings that are no canonical map of exactly their fields."""

    code: ClassVar[str] = "dag.verdict"


class VerdictDiffers(DagError):
    """A process whose verdict settings are not those of its deployment."""

    code: ClassVar[str] = "dag.verdict_differs"

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields
        """The fields that differ, a bound as `bounds.node`."""


class VerdictUnsupported(DagError):
    """Verdict settings that this process cannot act on, as for want of a hash function."""

    code: ClassVar[str] = "dag.verdict_unsupported"
