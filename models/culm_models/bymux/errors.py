"""Why a bymux connection ends: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.errors import ModelError


class BymuxError(ModelError):
    """The base of all that the other end can break."""

    code: ClassVar[str] = "bymux"


class TypeUnknown(BymuxError):
    """A frame of a type that there is not."""

    code: ClassVar[str] = "bymux.type"


class StreamUnknown(BymuxError):
    """A frame for a stream that there is not, one that would create a stream, or another global one."""

    code: ClassVar[str] = "bymux.stream"


class CreditExceeded(BymuxError):
    """More bytes than there was credit for, or more credit than there can be."""

    code: ClassVar[str] = "bymux.credit"


class StreamClosed(BymuxError):
    """A frame that closes a stream, or stops reading it: streams here end with the connection."""

    code: ClassVar[str] = "bymux.closed"


class FrameFlood(BymuxError):
    """More frames that carry nothing, such as pings, than one principal may send."""

    code: ClassVar[str] = "bymux.flood"


class ConsumedTooMuch(ModelError):
    """This end's own caller says that it consumed more bytes than came."""

    code: ClassVar[str] = "bymux.consumed"
