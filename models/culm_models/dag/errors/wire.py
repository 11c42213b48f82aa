"""What is wrong with messages (reference 6)."""

from typing import ClassVar

from culm_models.dag.errors.base import DagError


class DagFrameTooLarge(DagError):
    """A frame longer than allowed."""

    code: ClassVar[str] = "dag.frame_too_large"
