"""What is wrong with a frame: one class a rule, each with its stable code."""

from culm_models.errors import CulmError


class FrameError(CulmError, code="sds.frame"):
    """Bytes that are no frame of the edge protocol; the stream cannot go on."""


class FrameTooLargeError(FrameError, code="sds.frame.too_large"):
    """A frame that says it is longer than this side takes."""


class FrameTruncatedError(FrameError, code="sds.frame.truncated"):
    """The stream ended within a frame."""


class FrameContentError(FrameError, code="sds.frame.cbor"):
    """A frame that is not the CBOR that every message here is."""


class FrameKindError(FrameError, code="sds.frame.kind"):
    """A frame of a kind that does not exist, or that the other side never sends."""


class FrameShapeError(FrameError, code="sds.frame.shape"):
    """A frame whose fields are not those of its kind."""
