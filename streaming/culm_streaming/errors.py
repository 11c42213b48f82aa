"""The errors of this package. `code` is stable: see `culm_models.errors`; `hint` says what to do."""

from typing import ClassVar

from culm_models.errors import CulmError


class StreamingError(CulmError):
    """Anything that goes wrong in the streaming jobs."""

    code: ClassVar[str] = "streaming"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SessionError(StreamingError):
    """Spark could not be started as it was asked for."""

    code: ClassVar[str] = "streaming.session"


class JobError(StreamingError):
    """A streaming job ended by itself, which only a failure can make it do."""

    code: ClassVar[str] = "streaming.job"


class JobGivenUp(JobError):
    """A job failed again and again for a reason that should have passed: a later start may succeed."""

    code: ClassVar[str] = "streaming.job.given_up"
    passes: ClassVar[bool] = True


class CheckpointError(StreamingError):
    """A checkpoint's folder cannot be used, read or written."""

    code: ClassVar[str] = "streaming.checkpoint"


class StateLayoutError(StreamingError):
    """A checkpoint was made with other shards, blocks or state format than it is continued with."""

    code: ClassVar[str] = "streaming.state_layout"


class StateMissingError(StreamingError):
    """What a row of state names is not there, or is not whole: the checkpoint is damaged."""

    code: ClassVar[str] = "streaming.state_missing"


class JobSettingsError(StreamingError):
    """Settings of a job's state that are out of bounds, or do not fit each other."""

    code: ClassVar[str] = "streaming.settings"


class EarlyOverflowError(StreamingError):
    """An entry arrived before its predecessors, and as many of those are held back already as may be."""

    code: ClassVar[str] = "logs.early_overflow"


class BlockFullError(StreamingError):
    """A new log falls into a block of state that holds as many logs as it may."""

    code: ClassVar[str] = "logs.block_full"


class CoverageFullError(StreamingError):
    """What is held of a log finds no room in the state of the job `coverage`: a bound of its settings."""

    code: ClassVar[str] = "coverage.full"
