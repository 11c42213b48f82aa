"""`coverage`: what a peer, or the deployment, is known to hold of a log, as it stands: sets, not heights."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.logs.records.runs import Runs, clip_runs, flat_runs, read_runs
from culm_topics.records.keys import PEER_ID_SIZE, check_peer_key, split_flavoured_log_key
from culm_topics.records.shape import FORMAT, check_size, dump, load_array, uint_size

MAX_COVERAGE_RUNS: Final = 50_000
"""Runs of one list: three full ones are 2.7 MB, below the topic's message limit."""


@dataclass(frozen=True, slots=True)
class CoverageRecord:
    """Value of `coverage`; its key is peer id and log key.

    `provable`: the entries whose certificate pools are whole among `entries`. `left_out` runs found no room;
    they are above those that are here, so nothing is said of the numbers above a full list's end.
    """

    entries: Runs
    payloads: Runs
    provable: Runs
    left_out: int = 0

    def encode(self) -> bytes:
        """`[1, entries, payloads, provable, left_out]`."""
        return dump(
            FORMAT,
            flat_runs("coverage", "entries", self.entries, MAX_COVERAGE_RUNS),
            flat_runs("coverage", "payloads", self.payloads, MAX_COVERAGE_RUNS),
            flat_runs("coverage", "provable", self.provable, MAX_COVERAGE_RUNS),
            self.left_out,
        )

    @staticmethod
    def decode(value: bytes | None) -> "CoverageRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, entries, payloads, provable, left_out = load_array(value, "coverage", 5)
        held, held_size = read_runs("coverage", "entries", entries, MAX_COVERAGE_RUNS)
        whole, whole_size = read_runs("coverage", "payloads", payloads, MAX_COVERAGE_RUNS)
        proven, proven_size = read_runs("coverage", "provable", provable, MAX_COVERAGE_RUNS)
        last_size = uint_size("coverage", "left_out", left_out)
        check_size(value, 2 + held_size + whole_size + proven_size + last_size, "coverage")
        return CoverageRecord(held, whole, proven, left_out)


def coverage_record(
    entries: Iterable[tuple[int, int]],
    payloads: Iterable[tuple[int, int]],
    provable: Iterable[tuple[int, int]],
) -> CoverageRecord:
    """The record that says this, as far as it has room. Ranges as of a `RangeSet`."""
    lists = [clip_runs(ranges) for ranges in (entries, payloads, provable)]
    left_out = sum(max(0, len(runs) - MAX_COVERAGE_RUNS) for runs in lists)
    held, whole, proven = (runs[:MAX_COVERAGE_RUNS] for runs in lists)
    return CoverageRecord(held, whole, proven, left_out)


def coverage_key(peer_id: bytes, log_key: bytes) -> bytes:
    """The key of one peer's row for one log: 72 bytes, 73 of a YAMF log. Raises `RecordError`."""
    split_flavoured_log_key(log_key)
    return check_peer_key(peer_id) + log_key


def split_coverage_key(key: bytes | None) -> tuple[bytes, HashFlavour, LogKey]:
    """Peer id, flavour and (public_key, log_id); `RecordError` when the key is no row's."""
    flavour, log = split_flavoured_log_key(None if key is None else key[PEER_ID_SIZE:])
    return check_peer_key((key or b"")[:PEER_ID_SIZE]), flavour, log
