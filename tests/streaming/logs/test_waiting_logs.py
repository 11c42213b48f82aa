"""A shard of the job `logs` knows how many logs wait for entries that have not come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm_models.p2panda.operations.operation import CheckedOperation
from culm_streaming.logs.log_table import TOTALS
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.logs.step import step
from culm_streaming.progress import Waiting
from culm_streaming.stateful.job_state import MemoryState
from tests.support.p2panda.logs import author, make_log
from tests.support.p2panda.logs_job import arrivals

if TYPE_CHECKING:
    pass

SETTINGS = ChainSettings(shards=1, blocks=2)


def take(store: MemoryState, entries: list[CheckedOperation], now_ms: int) -> Waiting | None:
    packed = [
        (rows.heads, rows.sizes, rows.values)
        for rows in pack_records(arrivals(entries), SETTINGS, verify_signature=False)
    ]
    return step(store, unpack_rows(packed), SETTINGS, lambda *_: None, now_ms=now_ms).waiting


def test_a_shard_knows_how_many_logs_wait_and_since_when_there_was_always_one() -> None:
    store = MemoryState()
    a, b = (make_log(author("a"), log_id, 4) for log_id in range(2))
    assert take(store, a[:1], 1) is None
    assert take(store, a[2:], 2) == Waiting(1, 2)
    assert take(store, b[1:2], 3) == Waiting(2, 2)
    assert take(store, b[1:2], 4) == Waiting(2, 2), "a repeat"
    assert take(store, a[1:2], 5) == Waiting(1, 2)
    assert take(store, b[:1], 6) == Waiting(0, 0)
    assert take(store, b[2:3], 7) is None
    assert take(store, b[3:] + make_log(author("c"), 0, 2)[1:], 8) == Waiting(1, 8)


def test_the_state_of_an_earlier_version_is_counted() -> None:
    store = MemoryState()
    logs = [make_log(author("a"), log_id, 3) for log_id in range(5)]
    take(store, [log[1] for log in logs], 5)
    totals = store.load(TOTALS)
    assert totals is not None
    store.save(TOTALS, (), b"\x01" + totals[1:20])
    assert take(store, logs[0][:1], 9) == Waiting(4, 9)
