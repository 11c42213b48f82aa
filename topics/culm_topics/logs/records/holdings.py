"""`holdings`: what a peer is newly known to hold of a log, and what it has dropped: sets, not heights."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from culm_topics.logs.records.runs import Runs, clip_runs, flat_runs, read_runs
from culm_topics.records.keys import LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE, split_flavoured_log_key
from culm_topics.records.shape import FORMAT, check_size, dump, load_array, refuse_item, require, string_size

MAX_HOLDING_RUNS: Final = 1_000
"""Runs of one record, all lists together; writers split."""


@dataclass(frozen=True, slots=True)
class HoldingRecord:
    """Value of `holdings`; its key is the peer's id. `log_key` is that of `entries` and `logs`.

    Of a record the drops come last: a payload in both lists was dropped.
    """

    log_key: bytes
    entries: Runs = ()
    payloads: Runs = ()
    payloads_dropped: Runs = ()

    def encode(self) -> bytes:
        """`[1, log_key, entries, payloads, payloads_dropped]`."""
        require(len(self.log_key) in (LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE), "holdings", "that is no log key")
        runs = len(self.entries) + len(self.payloads) + len(self.payloads_dropped)
        require(runs <= MAX_HOLDING_RUNS, "holdings", f"more than {MAX_HOLDING_RUNS} runs")
        return dump(
            FORMAT,
            self.log_key,
            flat_runs("holdings", "entries", self.entries, MAX_HOLDING_RUNS),
            flat_runs("holdings", "payloads", self.payloads, MAX_HOLDING_RUNS),
            flat_runs("holdings", "payloads_dropped", self.payloads_dropped, MAX_HOLDING_RUNS),
        )

    @staticmethod
    def decode(value: bytes | None) -> "HoldingRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, log_key, entries, payloads, dropped = load_array(value, "holdings", 5)
        if type(log_key) is not bytes:
            refuse_item("holdings", "log_key", log_key, "bytes")
        split_flavoured_log_key(log_key)
        held, held_size = read_runs("holdings", "entries", entries, MAX_HOLDING_RUNS)
        whole, whole_size = read_runs("holdings", "payloads", payloads, MAX_HOLDING_RUNS)
        gone, gone_size = read_runs("holdings", "payloads_dropped", dropped, MAX_HOLDING_RUNS)
        if len(held) + len(whole) + len(gone) > MAX_HOLDING_RUNS:
            refuse_item("holdings", "all of it", entries, f"at most {MAX_HOLDING_RUNS} runs")
        check_size(value, 2 + string_size(len(log_key)) + held_size + whole_size + gone_size, "holdings")
        return HoldingRecord(log_key, held, whole, gone)


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
