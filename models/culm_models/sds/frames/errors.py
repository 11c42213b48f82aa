"""What is wrong with a frame: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.errors import CulmError


class FrameError(CulmError):
    """Bytes that are no frame of the edge protocol; the stream cannot go on."""

    code: ClassVar[str] = "sds.frame"


class FrameTooLargeError(FrameError):
    """A frame that says it is longer than this side takes."""

    code: ClassVar[str] = "sds.frame.too_large"


class FrameTruncatedError(FrameError):
    """The stream ended within a frame."""

    code: ClassVar[str] = "sds.frame.truncated"


class FrameContentError(FrameError):
    """A frame that is not the CBOR that every message here is."""

    code: ClassVar[str] = "sds.frame.cbor"


class FrameKindError(FrameError):
    """A frame of a kind that does not exist, or that the other side never sends."""

    code: ClassVar[str] = "sds.frame.kind"


class FrameShapeError(FrameError):
    """A frame whose fields are not those of its kind."""

    code: ClassVar[str] = "sds.frame.shape"
