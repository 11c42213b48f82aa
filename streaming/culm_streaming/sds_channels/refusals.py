"""Why the job refuses a record or a command. The codes are stable; they stand on `rejected`."""

from typing import ClassVar

from culm_streaming.errors import StreamingError


class ProfileError(StreamingError):
    """A record in another wire profile than its channel has: a channel has the one of its first message."""

    code: ClassVar[str] = "sds.profile"


class UnknownChannelError(StreamingError):
    """A command for a channel in which nobody is hosted yet: only `join` begins one."""

    code: ClassVar[str] = "sds.channel.unknown"


class CommandError(StreamingError):
    """A command that lacks what it needs."""

    code: ClassVar[str] = "sds.command"


class OwnedIdError(StreamingError):
    """A participant id that belongs to another key, which alone may join, speak and leave as it."""

    code: ClassVar[str] = "sds.participant.owned"


class FullParticipantError(StreamingError):
    """An id that has spoken as a full participant: it cannot be hosted as well."""

    code: ClassVar[str] = "sds.participant.full"


class OwnedTooManyError(StreamingError):
    """A key that would have too many ids in a channel, or a channel with too many."""

    code: ClassVar[str] = "sds.participant.too_many"


class OwnedSenderError(StreamingError):
    """A new message under a sender id that belongs to another key; repeats of those that it made are free."""

    code: ClassVar[str] = "sds.sender.owned"


class FilterSizeError(StreamingError):
    """Settings of a `join` whose filter is larger than a channel's may be, or than a message can carry."""

    code: ClassVar[str] = "sds.bloom.size"


class FilterBudgetError(StreamingError):
    """Settings of a `join` that ask for a large filter when those of the shard have taken all their room."""

    code: ClassVar[str] = "sds.bloom.full"


class ChannelSettingsError(StreamingError):
    """Settings of a `join` that are unknown, out of bounds, or not those that the channel has."""

    code: ClassVar[str] = "sds.settings"
