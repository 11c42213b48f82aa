"""The problems of a consumer: malformed records, and logs with a missing entry.

A malformed record or a gap affects only itself or its log: the others continue. With `strict` either ends the
reading.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from culm_models.bamboo.hashes import YASMF, HashFlavour
from culm_topics.errors import LogGap, RecordError

logger = logging.getLogger(__name__)

_LOG_INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LogProblem:
    """A skipped record, or (with a `log`, its public key and number) a log that was set aside.

    `partition` and `offset` are the record's, or those of the first record after the gap. `missing_seq_num`
    is the entry with which the log continues, `flavour` that of the log's hashes.
    """

    error: RecordError | LogGap
    partition: int
    offset: int
    log: tuple[bytes, int] | None = None
    missing_seq_num: int | None = None
    flavour: HashFlavour = YASMF

    @property
    def code(self) -> str:
        """The error's stable code: `topics.record` or `topics.gap`."""
        return self.error.code


class Problems:
    """Counts problems and passes them to `on_problem`, or else logs them, at most one line a second."""

    def __init__(self, on_problem: Callable[[LogProblem], None] | None, *, strict: bool) -> None:
        self.bad_records = 0
        self._set_aside: dict[bytes, LogProblem] = {}
        self._on_problem = on_problem
        self._strict = strict
        self._logged_s: float | None = None
        self._unlogged = 0

    @property
    def set_aside(self) -> Mapping[bytes, LogProblem]:
        """The logs that wait for a missing entry, by their keys."""
        return self._set_aside

    def add(self, problem: LogProblem, key: bytes | None = None) -> None:
        """Count a problem, of the log with this key if a log is set aside.

        Raises the problem's error if the reader is strict.
        """
        if self._strict:
            raise problem.error
        if key is None:
            self.bad_records += 1
        else:
            self._set_aside[key] = problem
        if self._on_problem is not None:
            self._on_problem(problem)
        else:
            self._write(problem)

    def solved(self, key: bytes) -> None:
        """Record that the log continues."""
        problem = self._set_aside.pop(key, None)
        if problem is not None and problem.log is not None:
            public_key, log_id = problem.log
            logger.info("log %s %d continues: the missing entry arrived", public_key.hex(), log_id)

    def _write(self, problem: LogProblem) -> None:
        now_s = time.monotonic()
        if self._logged_s is not None and now_s - self._logged_s < _LOG_INTERVAL_SECONDS:
            self._unlogged += 1
            return
        what = "passed over" if problem.log is None else "this log is set aside"
        more = f" (and {self._unlogged} more)" if self._unlogged else ""
        logger.warning("%s: %s (%s)%s", what, problem.error, problem.code, more)
        self._logged_s, self._unlogged = now_s, 0
