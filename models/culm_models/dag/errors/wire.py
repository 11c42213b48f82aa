"""What is wrong with messages, and with what an end does with them (reference 6)."""

from typing import ClassVar

from culm_models.dag.errors.base import DagError


class DagFrameTooLarge(DagError):
    """A frame longer than allowed."""

    code: ClassVar[str] = "dag.frame_too_large"


class DagUnexpected(DagError):
    """A message out of its place: before HELLO, a second HELLO, or of a space that no HELLO named."""

    code: ClassVar[str] = "dag.unexpected"


class ShardSizeChanged(DagError):
    """A shard that was offered or sent with two sizes."""

    code: ClassVar[str] = "dag.size_changed"


class ChunkOverlap(DagError):
    """A chunk that came before, of a shard whose transfer goes on."""

    code: ClassVar[str] = "dag.overlap"


class DagUnasked(DagError):
    """More was sent without having been asked for than can be an accident."""

    code: ClassVar[str] = "dag.unasked"


class SpoolFull(DagError):
    """No room for a further shard that is on its way: later there may be (R34)."""

    code: ClassVar[str] = "dag.spool_full"


class SpaceNotAllowed(DagError):
    """Who asks may not do this in the space (R14)."""

    code: ClassVar[str] = "dag.not_allowed"


class SpaceFull(DagError):
    """A space has all the bytes here that it may have: later there may be room (R33)."""

    code: ClassVar[str] = "dag.space_full"


class WaitingFull(DagError):
    """No room for a further node that waits for its prior or its proofs: later there may be (3.4)."""

    code: ClassVar[str] = "dag.waiting_full"
