"""`coverage`: what a peer, or the deployment, is known to hold of a log, as it stands: sets, not heights."""

from collections.abc import Iterable
from typing import Annotated, Final

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.logs.records.runs import Runs, clip_runs, runs_kind
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import PEER_ID_SIZE, check_peer_key, split_flavoured_log_key

MAX_COVERAGE_RUNS: Final = 50_000
"""Runs of one list: three full ones are 2.7 MB, below the topic's message limit."""

_Runs = Annotated[Runs, runs_kind(MAX_COVERAGE_RUNS, "a list")]


@record(
    "coverage",
    "what a peer is known to hold of one log, as it stands. Key: peer id (32 bytes), log key (40 bytes, 41 "
    "of a YAMF log); under the all-zero peer id the deployment.",
)
class CoverageRecord(Record):
    """Value of `coverage`; its key is peer id and log key.

    `provable`: the entries whose certificate pools are whole among `entries`. `left_out` runs found no room;
    they are above those that are here, so nothing is said of the numbers above a full list's end.
    """

    entries: Annotated[_Runs, "entries that it holds"]
    payloads: Annotated[_Runs, "payloads that it holds, by their entries' sequence numbers"]
    provable: Annotated[_Runs, "entries whose certificate pools are whole among those that it holds"]
    left_out: Annotated[int, "runs that the lists have no room for: the highest ones"] = 0


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
