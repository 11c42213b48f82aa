"""The end of Spark's JVM while jobs run: part of a requested stop, or the reason why the run ends."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from culm_streaming.errors import JobGivenUp, StreamingError

logger = logging.getLogger(__name__)

_SIGNAL_SECONDS: Final = 1.0
"""Time to wait for `stop`: a supervisor stops this process and the JVM at once, and the JVM may end first."""


def has_ended(session: SparkSession) -> bool:
    """Return whether the JVM of a session has ended, or its context has stopped."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError, AttributeError):
        # No answer; a context that was stopped by this process has no JVM object any more.
        return True


@contextmanager
def spark_may_end(session: SparkSession, stop: Event) -> Iterator[None]:
    """Run the body; an error caused by the end of Spark itself counts as part of a requested stop.

    Raises `JobGivenUp` if Spark ended although `stop` is not set; other errors pass through.
    """
    try:
        yield
    except (Py4JError, OSError, StreamingError) as error:
        if not has_ended(session):
            raise
        if not stop.wait(_SIGNAL_SECONDS):
            raise JobGivenUp(
                "Spark's Java process has ended",
                hint="its log has the reason; the system may have ended it for memory",
            ) from error
        logger.info("Spark ended before the jobs were stopped: their last micro-batches will run again")
