"""The errors of this package.

`code` is stable: see `culm_models.errors`. `hint` says what the operator can do.
"""

from typing import ClassVar

from culm_models.errors import CulmError


class StreamingError(CulmError):
    """Base class of errors in the streaming jobs."""

    code: ClassVar[str] = "streaming"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SparkSessionError(StreamingError):
    """Spark could not be started with these settings."""

    code: ClassVar[str] = "streaming.session"


class JobError(StreamingError):
    """A streaming job ended by itself, which only happens after a failure."""

    code: ClassVar[str] = "streaming.job"


class JobGivenUp(JobError):
    """A job failed repeatedly for a reason that should have passed; a later start may succeed."""

    code: ClassVar[str] = "streaming.job.given_up"
    passes: ClassVar[bool] = True


class CheckpointError(StreamingError):
    """A checkpoint's folder cannot be used, read or written."""

    code: ClassVar[str] = "streaming.checkpoint"


class StateLayoutError(StreamingError):
    """A checkpoint was made with other shards, blocks or another state format than those of this run."""

    code: ClassVar[str] = "streaming.state_layout"


class StateMissingError(StreamingError):
    """Data that a row of state names is missing or incomplete: the checkpoint is damaged."""

    code: ClassVar[str] = "streaming.state_missing"


class JobSettingsError(StreamingError):
    """Settings of a job's state that are out of bounds or contradict each other."""

    code: ClassVar[str] = "streaming.settings"


class EarlyOverflowError(StreamingError):
    """An entry arrived before its predecessors, and too many such entries are held back already."""

    code: ClassVar[str] = "logs.early_overflow"


class BlockFullError(StreamingError):
    """A new log falls into a block of state that already holds the maximum number of logs."""

    code: ClassVar[str] = "logs.block_full"


class CoverageFullError(StreamingError):
    """Data about a log exceeds a limit in the settings of the job `coverage`."""

    code: ClassVar[str] = "coverage.full"


class WaitingLogsFullError(StreamingError):
    """A log waits for the document that it belongs to, and too many logs or bytes wait already."""

    code: ClassVar[str] = "documents.waiting_full"


class LogUnknownError(StreamingError):
    """Operations of a log whose document is unknown: its first operation was refused or never arrived."""

    code: ClassVar[str] = "documents.log_unknown"
