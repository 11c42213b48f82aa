"""Why a bymux connection ends: one class a rule, each with its stable code."""

from culm_models.errors import ModelError


class BymuxError(ModelError, code="bymux"):
    """The base of all that the other end can break."""


class TypeUnknown(BymuxError, code="bymux.type"):
    """A frame of a type that there is not."""


class StreamUnknown(BymuxError, code="bymux.stream"):
    """A frame for a stream that there is not, one that would create a stream, or another global one."""


class CreditExceeded(BymuxError, code="bymux.credit"):
    """More bytes than there was credit for, or more credit than there can be."""


class StreamClosed(BymuxError, code="bymux.closed"):
    """A frame that closes a stream, or stops reading it: streams here end with the connection."""


class FrameFlood(BymuxError, code="bymux.flood"):
    """More frames that carry nothing, such as pings, than one principal may send."""


class ConsumedTooMuch(ModelError, code="bymux.consumed"):
    """This end's own caller says that it consumed more bytes than came."""
