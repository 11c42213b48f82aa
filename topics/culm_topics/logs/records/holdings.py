"""`holdings`: what a peer is newly known to hold of a log, and what it has dropped: sets, not heights."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from culm_topics.logs.records.runs import Runs, clip_runs, runs_kind
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE, split_flavoured_log_key
from culm_topics.records.kinds import sized_between
from culm_topics.records.shape import require

MAX_HOLDING_RUNS: Final = 1_000
"""Runs of one record, all lists together; writers split."""

_Runs = Annotated[Runs, runs_kind(MAX_HOLDING_RUNS, "in a record, all lists together")]


@record("holdings", "what a peer is newly known to hold of one log. Key: peer id (32 bytes).")
class HoldingRecord(Record):
    """Value of `holdings`; its key is the peer's id. `log_key` is that of `entries` and `logs`.

    Of a record the drops come last: a payload in both lists was dropped.
    """

    log_key: Annotated[bytes, sized_between(LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE), "of the log, as in `logs`"]
    entries: Annotated[_Runs, "entries that it holds"] = ()
    payloads: Annotated[_Runs, "payloads that it holds, by their entries' sequence numbers"] = ()
    payloads_dropped: Annotated[_Runs, "payloads that it held and holds no longer"] = ()

    def verify(self) -> None:
        """Raises `RecordError` where there are too many runs, or the key is none."""
        split_flavoured_log_key(self.log_key)
        count = len(self.entries) + len(self.payloads) + len(self.payloads_dropped)
        require(count <= MAX_HOLDING_RUNS, "holdings", f"more than {MAX_HOLDING_RUNS} runs")


def holding_records(
    log_key: bytes,
    entries: Iterable[tuple[int, int]] = (),
    payloads: Iterable[tuple[int, int]] = (),
    payloads_dropped: Iterable[tuple[int, int]] = (),
) -> Iterator[HoldingRecord]:
    """The records that say this, as many as it takes; none for nothing. Ranges as of a `RangeSet`."""
    lists = [clip_runs(ranges) for ranges in (entries, payloads, payloads_dropped)]
    if sum(map(len, lists)) <= MAX_HOLDING_RUNS:
        if any(lists):
            yield HoldingRecord(log_key, *lists)
        return
    for place, runs in enumerate(lists):
        for first in range(0, len(runs), MAX_HOLDING_RUNS):
            among: list[Runs] = [(), (), ()]
            among[place] = runs[first : first + MAX_HOLDING_RUNS]
            yield HoldingRecord(log_key, *among)
