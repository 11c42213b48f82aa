"""Why a message or a wish around sessions is passed over, or a session fails: one class a reason."""

from typing import ClassVar

from culm_models.p2panda.errors import P2pandaError


class SessionError(P2pandaError):
    """The base of what can be wrong around sessions."""

    code: ClassVar[str] = "p2panda.session"


class UnsupportedModeError(SessionError):
    """A replication mode that is not spoken here."""

    code: ClassVar[str] = "p2panda.session.mode"


class EmptySetError(SessionError):
    """A session about no schema at all."""

    code: ClassVar[str] = "p2panda.session.empty_set"


class TooManySchemasError(SessionError):
    """A session about more schemas than are taken."""

    code: ClassVar[str] = "p2panda.session.too_many_schemas"


class NotAnnouncedError(SessionError):
    """A schema of the request is not in the latest announcement."""

    code: ClassVar[str] = "p2panda.session.not_announced"


class DuplicateSessionError(SessionError):
    """A session with this id, or about these very schemas, exists already."""

    code: ClassVar[str] = "p2panda.session.duplicate"


class TooManySessionsError(SessionError):
    """There are as many sessions with this remote as are allowed."""

    code: ClassVar[str] = "p2panda.session.too_many"


class UnknownSessionError(SessionError):
    """A message for a session that does not exist, or no longer."""

    code: ClassVar[str] = "p2panda.session.unknown"


class HaveRepeatedError(SessionError):
    """A second `Have` in one session."""

    code: ClassVar[str] = "p2panda.session.have_repeated"


class UnexpectedMessageError(SessionError):
    """A message that the session's mode does not have."""

    code: ClassVar[str] = "p2panda.session.unexpected_message"


class SessionTimeoutError(SessionError):
    """Nothing happened for too long."""

    code: ClassVar[str] = "p2panda.session.timeout"


class AbandonedError(SessionError):
    """The remote asks for a session in the place of one that it has given up."""

    code: ClassVar[str] = "p2panda.session.abandoned"


class DisconnectedError(SessionError):
    """The link went down while the session was open."""

    code: ClassVar[str] = "p2panda.session.disconnected"


class NotConnectedError(SessionError):
    """There is no link to this remote, or nothing can be said on it any more."""

    code: ClassVar[str] = "p2panda.session.not_connected"


class RefusedError(SessionError):
    """The remote does not hold the session that we asked for, or gives it up."""

    code: ClassVar[str] = "p2panda.session.refused"


class OutOfTurnError(SessionError):
    """A batch of set reconciliation before our last one can have reached the remote."""

    code: ClassVar[str] = "p2panda.session.out_of_turn"


class UnreadError(SessionError):
    """The remote goes on with set reconciliation and does not read what it is answered."""

    code: ClassVar[str] = "p2panda.session.unread"


class HaveTooLargeError(SessionError):
    """What we hold of one schema does not fit a `Have`, and is not to be told in part."""

    code: ClassVar[str] = "p2panda.session.have_too_large"
