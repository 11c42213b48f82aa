"""What is wrong with messages, and with what an end does with them (reference 6)."""

from culm_models.dag.errors.base import DagError


class DagFrameTooLarge(DagError, code="dag.frame_too_large"):
    """A frame longer than allowed."""


class DagUnexpected(DagError, code="dag.unexpected"):
    """A message out of its place: before HELLO, a second HELLO, or of a space that no HELLO named."""


class ShardSizeChanged(DagError, code="dag.size_changed"):
    """A shard that was offered or sent with two sizes."""


class ChunkOverlap(DagError, code="dag.overlap"):
    """A chunk that came before, of a shard whose transfer goes on."""


class DagUnasked(DagError, code="dag.unasked"):
    """More was sent without having been asked for than can be an accident."""


class SpoolFull(DagError, code="dag.spool_full"):
    """No room for a further shard that is on its way: later there may be (R34)."""


class SpaceNotAllowed(DagError, code="dag.not_allowed"):
    """Who asks may not do this in the space (R14)."""


class SpaceFull(DagError, code="dag.space_full"):
    """A space has all the bytes here that it may have: later there may be room (R33)."""


class WaitingFull(DagError, code="dag.waiting_full"):
    """No room for a further node that waits for its prior or its proofs: later there may be (3.4)."""
