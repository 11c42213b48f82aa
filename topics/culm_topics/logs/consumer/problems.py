"""What a consumer passed over, and why: records that are none, and logs that lack an entry.

One bad record costs itself, and one gap its log: the others go on. Whoever must not go on asks for `strict`.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from culm_topics.errors import LogGap, RecordError

logger = logging.getLogger(__name__)

_LOG_INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that was passed over, or (with a `log`, its public key and number) a log set aside.

    `partition` and `offset` are the record's, or those of the first one behind the gap. `missing_seq_num` is
    the entry with which the log goes on when it comes.
    """

    error: RecordError | LogGap
    partition: int
    offset: int
    log: tuple[bytes, int] | None = None
    missing_seq_num: int | None = None

    @property
    def code(self) -> str:
        """The error's stable code: `topics.record` or `topics.gap`."""
        return self.error.code


class Problems:
    """Counts problems and hands them to `on_problem`, else to `logging`, one line a second at most."""

    def __init__(self, on_problem: Callable[[Problem], None] | None, *, strict: bool) -> None:
        self.bad_records = 0
        self._set_aside: dict[tuple[bytes, int], Problem] = {}
        self._on_problem = on_problem
        self._strict = strict
        self._logged_s: float | None = None
        self._unlogged = 0

    @property
    def set_aside(self) -> Mapping[tuple[bytes, int], Problem]:
        """The logs that wait for a missing entry."""
        return self._set_aside

    def add(self, problem: Problem) -> None:
        """One more; raises its error where the reader is strict."""
        if self._strict:
            raise problem.error
        if problem.log is None:
            self.bad_records += 1
        else:
            self._set_aside[problem.log] = problem
        if self._on_problem is not None:
            self._on_problem(problem)
        else:
            self._write(problem)

    def solved(self, log: tuple[bytes, int]) -> None:
        """The log goes on where it stopped."""
        if self._set_aside.pop(log, None) is not None:
            logger.info("log %s %d goes on: the missing entry came", log[0].hex(), log[1])

    def _write(self, problem: Problem) -> None:
        now_s = time.monotonic()
        if self._logged_s is not None and now_s - self._logged_s < _LOG_INTERVAL_SECONDS:
            self._unlogged += 1
            return
        what = "passed over" if problem.log is None else "this log is set aside"
        more = f" (and {self._unlogged} more)" if self._unlogged else ""
        logger.warning("%s: %s (%s)%s", what, problem.error, problem.code, more)
        self._logged_s, self._unlogged = now_s, 0
