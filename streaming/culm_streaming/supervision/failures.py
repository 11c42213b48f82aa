"""Classifies failures of a query from Spark's long reports: the cause, and whether it is temporary.

Spark reports the failure of a worker as a Python traceback within a Java stack trace within the name of a
query. The relevant part is the innermost cause: an error of Culm's with its code, or the last Java exception.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from culm_topics.errors import KafkaFailure

Kind = Literal["kafka", "late_worker", "worker", "storage", "lasting"]

_OURS: Final = re.compile(r"^(culm_(?:models|topics|streaming)[\w.]*\.\w+): (.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^((?:[a-z]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_CAUSED_BY: Final = re.compile(r"^\s*Caused by: ([\w.$]+)(?:: (.+))?$", re.MULTILINE)
_JAVA: Final = re.compile(r"^(?:: )?((?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)): (.+)$", re.MULTILINE)
_QUERY: Final = re.compile(r"^\[\w+\] Query \[id = .*?\] terminated with exception: ")
_MAX_CHARACTERS: Final = 1_500
_MAX_CAUSES: Final = 10

# In the order of the search: a temporary failure must not hide one that needs an operator.
_LASTING: Final = re.compile(
    r"\b(Sasl\w*|SslAuthentication|\w*Authorization|UnsupportedVersion|RecordTooLarge|InvalidTopic)Exception\b"
    r"|KafkaDataConsumer.*OffsetOutOfRange|may have been (?:lost|missed)|No FileSystem for scheme"
)
_EXPIRED: Final = re.compile(r"[Dd]ata may have been (?:lost|missed)|KafkaDataConsumer.*OffsetOutOfRange")
_KAFKA: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|NotLeaderOrFollower|LeaderNotAvailable"
    r"|NotEnoughReplicas|NotEnoughReplicasAfterAppend|BrokerNotAvailable|ReplicaNotAvailable|KafkaStorage"
    r"|FencedLeaderEpoch|UnknownLeaderEpoch|CoordinatorNotAvailable|CoordinatorLoadInProgress|NotCoordinator"
    r"|UnknownTopicOrPartition|NotController|OutOfOrderSequence|UnknownProducerId)Exception"
    r"|No resolvable bootstrap urls|culm_topics\.errors\.KafkaFailure"
)
_LATE_WORKER: Final = re.compile(
    # A worker that Spark starts without the daemon (once for each start of a query with state) has ten
    # seconds to connect back, however busy the machine is; no setting changes that.
    r"Python worker failed to connect back"
)
_WORKER: Final = re.compile(
    # The daemon that forks Python workers has ended, or a worker ended while it was forked.
    r"\bPythonWorkerFactory\.\S*(?:stopWorker|createWorker)\S*\(|"
    r"Python worker exited unexpectedly|CANNOT_OPEN_SOCKET"
    r"|Executor heartbeat timed out|ExecutorLostFailure|executor \d+ exited|Lost task .*ExecutorLost"
    r"|FetchFailedException|Remote RPC client disassociated|Master removed our application"
)
_STORAGE: Final = re.compile(
    r"SdkClientException|AWSClientIOException|AWSServiceThrottled|AWSStatus5\d\d|SocketTimeoutException"
    r"|No space left on device"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a query ended.

    `cause` is one line; `hint` says what the operator can do, if that is known.
    """

    kind: Kind
    cause: str
    hint: str | None = None

    @property
    def passes(self) -> bool:
        """Whether a later start may succeed without intervention."""
        return self.kind != "lasting"


def failure_of(error: BaseException) -> Failure:
    """Classify the error that ended a query, or its start."""
    text = _text(error)
    cause = cause_of(error)
    hint = getattr(error, "hint", None) or _hint(text)
    if isinstance(error, KafkaFailure):
        return Failure("kafka" if error.passes else "lasting", cause, hint)
    if (ours := _last(_OURS, text)) is not None and not ours[0].endswith(".KafkaFailure"):
        return Failure("lasting", cause, hint)
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("lasting", _LASTING),
        ("late_worker", _LATE_WORKER),
        ("worker", _WORKER),
        ("kafka", _KAFKA),
        ("storage", _STORAGE),
    )
    for kind, pattern in kinds:
        if pattern.search(text):
            return Failure(kind, cause, hint)
    return Failure("lasting", cause, hint)


def cause_of(error: BaseException) -> str:
    """Return the innermost cause that an error's text names, in one line."""
    text = _text(error)
    if (ours := _last(_OURS, text)) is not None:
        return ours[1][:_MAX_CHARACTERS]
    if (python := _last(_PYTHON, text)) is not None and "Traceback (most recent call last)" in text:
        return f"{_short(python[0])}: {python[1]}"[:_MAX_CHARACTERS]
    for name, message in reversed(_CAUSED_BY.findall(text)):
        if message:
            return f"{_short(name)}: {message}"[:_MAX_CHARACTERS]
    if (java := _JAVA.search(text)) is not None:
        return f"{_short(java[1])}: {java[2]}"[:_MAX_CHARACTERS]
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _QUERY.sub("", first)[:_MAX_CHARACTERS]


def missing_file_system_hint(text: str) -> str | None:
    """Return what to do about a file system whose classes are missing; None for other errors."""
    for scheme, mark, name in (
        ("s3a", "s3a.S3AFileSystem", "s3"),
        ("gs", "GoogleHadoopFileSystem", "gcs"),
        ("abfs", "azurebfs.", "azure"),
    ):
        if (f'"{scheme}' in text and "No FileSystem" in text) or (mark in text and "not found" in text):
            return f"its classes are in further jars: `culm jars fetch --with {name}`"
    if 'scheme "s3"' in text:
        return "Hadoop's name for S3 is s3a://"
    return None


def _hint(text: str) -> str | None:
    if "SaslAuthenticationException" in text:
        return "look at sasl.mechanism, sasl.username and sasl.password, and at the broker's listener"
    if "SslAuthenticationException" in text or "SSLHandshakeException" in text:
        return "look at ssl.ca.location and at the names in the broker's certificate"
    if "AuthorizationException" in text:
        return "grant what `culm topics acls --program job` lists"
    if _EXPIRED.search(text):
        return (
            "retention removed records before this job had read them: docs/operating.md says under "
            "'Records that expired' how to go on"
        )
    return missing_file_system_hint(text)


def _text(error: BaseException) -> str:
    """Return the texts of an error and of its causes: PySpark prints Java causes with the first one."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < _MAX_CAUSES:
        parts.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return "\n".join(parts)


def _last(pattern: re.Pattern[str], text: str) -> tuple[str, str] | None:
    matches = pattern.findall(text)
    return matches[-1] if matches else None


def _short(name: str) -> str:
    return name.rpartition(".")[2]
