"""Why a message or a wish around sessions is passed over, or a session fails: one class a reason."""

from culm_models.p2panda.errors import P2pandaError


class SessionError(P2pandaError, code="p2panda.session"):
    """The base of what can be wrong around sessions."""


class UnsupportedModeError(SessionError, code="p2panda.session.mode"):
    """A replication mode that is not spoken here."""


class EmptySetError(SessionError, code="p2panda.session.empty_set"):
    """A session about no schema at all."""


class TooManySchemasError(SessionError, code="p2panda.session.too_many_schemas"):
    """A session about more schemas than are taken."""


class NotAnnouncedError(SessionError, code="p2panda.session.not_announced"):
    """A schema of the request is not in the latest announcement."""


class DuplicateSessionError(SessionError, code="p2panda.session.duplicate"):
    """A session with this id, or about these very schemas, exists already."""


class TooManySessionsError(SessionError, code="p2panda.session.too_many"):
    """There are as many sessions with this remote as are allowed."""


class UnknownSessionError(SessionError, code="p2panda.session.unknown"):
    """A message for a session that does not exist, or no longer."""


class HaveRepeatedError(SessionError, code="p2panda.session.have_repeated"):
    """A second `Have` in one session."""


class UnexpectedMessageError(SessionError, code="p2panda.session.unexpected_message"):
    """A message that the session's mode does not have."""


class SessionTimeoutError(SessionError, code="p2panda.session.timeout"):
    """Nothing happened for too long."""


class AbandonedError(SessionError, code="p2panda.session.abandoned"):
    """The remote asks for a session in the place of one that it has given up."""


class DisconnectedError(SessionError, code="p2panda.session.disconnected"):
    """The link went down while the session was open."""


class NotConnectedError(SessionError, code="p2panda.session.not_connected"):
    """There is no link to this remote, or nothing can be said on it any more."""


class RefusedError(SessionError, code="p2panda.session.refused"):
    """The remote does not hold the session that we asked for, or gives it up."""


class OutOfTurnError(SessionError, code="p2panda.session.out_of_turn"):
    """A batch of set reconciliation before our last one can have reached the remote."""


class UnreadError(SessionError, code="p2panda.session.unread"):
    """The remote goes on with set reconciliation and does not read what it is answered."""


class HaveTooLargeError(SessionError, code="p2panda.session.have_too_large"):
    """What we hold of one schema does not fit a `Have`, and is not to be told in part."""
