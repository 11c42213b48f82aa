"""Waiting logs: what each limit costs, what a batch touches, and which state is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cbor2
import numpy as np
import pytest

from culm_streaming.errors import LogUnknownError, StateLayoutError, StateMissingError, WaitingLogsFullError
from culm_streaming.p2panda_documents import waiting_logs
from culm_streaming.p2panda_documents.log_documents import LOGS, OPERATIONS, VARIABLES
from culm_streaming.p2panda_documents.rows import short_id
from culm_streaming.p2panda_documents.sorted_runs import Keys
from culm_streaming.p2panda_documents.waiting_logs import AWAITED, BLOCKS, LOG_BLOCKS, SEGMENTS, TOTALS
from culm_streaming.progress import Waiting
from culm_streaming.stateful.job_state import MemoryState, Variable
from tests.support.p2panda.document_logs import (
    LAYOUT,
    NOW_MS,
    Log,
    chain,
    codes,
    details,
    operation_id,
    state_bytes,
    step,
    stray,
    waiting_values,
)


class TestLimits:
    """Each limit costs the log that has waited longest, and its later rows."""

    def test_an_author_loses_the_log_that_has_waited_longest(self) -> None:
        layout, store = replace(LAYOUT, max_waiting_logs_per_author=2), MemoryState()
        others = [stray(number) for number in range(50, 53)]
        logs = [stray(number, author=1) for number in range(3)]
        step(store, [row for log in others for row in log.rows()], layout)
        outputs = [step(store, log.rows(), layout) for log in logs]
        assert [codes(output) for output in outputs] == [[], [], [(logs[0].key, WaitingLogsFullError.code)]]
        assert "max_waiting_logs_per_author" in details(outputs[2])[0]
        assert outputs[2].waiting == Waiting(5, NOW_MS)

    def test_all_lose_the_log_that_has_waited_longest(self) -> None:
        layout, store = replace(LAYOUT, max_waiting_logs=3), MemoryState()
        logs = [stray(number) for number in range(20)]
        refused = []
        for log in logs:
            output = step(store, log.rows(), layout)
            refused += [key for key, _ in codes(output)]
            assert all("max_waiting_logs is" in detail for detail in details(output))
        assert refused == [log.key for log in logs[:17]]
        assert output.waiting == Waiting(3, NOW_MS)

    def test_an_author_of_many_logs_loses_them_in_the_order_of_arrival(self) -> None:
        layout, store = replace(LAYOUT, max_waiting_logs=3), MemoryState()
        logs = [stray(number, author=1) for number in (5, 3, 9, 1, 7, 2)]
        refused = [key for log in logs for key, _ in codes(step(store, log.rows(), layout))]
        assert refused == [log.key for log in logs[:3]]

    def test_a_batch_beyond_the_limit_keeps_exactly_the_limit(self) -> None:
        layout, store = replace(LAYOUT, max_waiting_logs=3), MemoryState()
        output = step(store, [row for number in range(20) for row in stray(number).rows()], layout)
        assert len(output.refused) == 17 and output.waiting == Waiting(3, NOW_MS)

    def test_bytes_cost_the_logs_that_have_waited_longest(self) -> None:
        size = len(cbor2.dumps(stray(0).rows()[0]))
        layout, store = replace(LAYOUT, max_waiting_bytes=3 * size), MemoryState()
        logs = [stray(number) for number in range(3)]
        step(store, [row for log in logs for row in log.rows()], layout)
        output = step(store, stray(9, sizes=(2,)).rows(), layout)
        assert "max_waiting_bytes is" in details(output)[0]
        assert len(output.refused) == 2 and output.waiting == Waiting(2, NOW_MS)

    def test_the_oldest_log_is_lost_by_its_own_rows(self) -> None:
        first, later = stray(0, sizes=(1, 1)).rows()
        (other,) = stray(1).rows()
        layout = replace(
            LAYOUT, max_waiting_bytes=sum(len(cbor2.dumps(row)) for row in (first, later, other)) - 1
        )
        store = MemoryState()
        step(store, [first], layout)
        step(store, [other], layout)
        output = step(store, [later], layout)
        assert codes(output) == [(first.log, WaitingLogsFullError.code)]
        assert output.waiting == Waiting(1, NOW_MS)
        assert sum(len(cbor2.loads(blob)[1]) for blob in store.of(SEGMENTS).values()) == 1

    def test_rows_too_large_for_their_log_are_refused_and_the_log_waits_on(self) -> None:
        log = Log(1, (0, 0), (1, 9, 1))
        first, large, small = log.rows()
        layout = replace(LAYOUT, max_waiting_bytes_per_log=len(cbor2.dumps(large)))
        store = MemoryState()
        assert codes(step(store, [first], layout)) == []
        output = step(store, [large, small], layout)
        assert codes(output) == [(log.key, WaitingLogsFullError.code)]
        assert "max_waiting_bytes_per_log" in details(output)[0]
        released = step(store, Log(0, None).rows(), layout).resolved
        assert [row.operations for row in released] == [
            first.operations,
            small.operations,
            operation_id(0, 0),
        ]

    def test_the_start_of_a_log_is_kept_rather_than_its_later_rows(self) -> None:
        for number in range(1, 6):
            log, store = Log(number, (0, 0), (2, 2)), MemoryState()
            layout = replace(LAYOUT, max_waiting_bytes_per_log=len(cbor2.dumps(log.rows()[0])))
            assert codes(step(store, log.rows(), layout)) == [(log.key, WaitingLogsFullError.code)]
            released = step(store, Log(0, None).rows(), layout).resolved
            assert [row.operations for row in released] == [log.rows()[0].operations, operation_id(0, 0)]

    def test_a_log_whose_first_rows_are_too_large_does_not_wait(self) -> None:
        layout, store = replace(LAYOUT, max_waiting_bytes=10), MemoryState()
        output = step(store, stray(1).rows(), layout)
        assert codes(output) == [(stray(1).key, WaitingLogsFullError.code)]
        assert "max_waiting_bytes is" in details(output)[0]
        assert output.waiting is None and store.values == {}

    def test_rows_of_a_refused_log_are_refused_until_its_start_arrives_again(self) -> None:
        layout, store = replace(LAYOUT, max_waiting_logs=1), MemoryState()
        log = Log(1, (0, 0), (1, 1, 1))
        first, second, third = log.rows()
        step(store, [first], layout)
        assert codes(step(store, stray(9).rows(), layout)) == [(log.key, WaitingLogsFullError.code)]
        assert codes(step(store, [second], layout)) == [(log.key, LogUnknownError.code)]
        step(store, Log(0, None).rows(), layout)
        assert codes(step(store, [second], layout)) == [(log.key, LogUnknownError.code)]
        assert len(step(store, [first], layout).resolved) == 1
        assert len(step(store, [third], layout).resolved) == 1

    def test_limits_that_were_lowered_apply_when_the_next_log_waits(self) -> None:
        store = MemoryState()
        step(store, [row for number in range(9) for row in stray(number).rows()])
        output = step(store, stray(10).rows(), replace(LAYOUT, max_waiting_logs=4))
        assert len(output.refused) == 6 and output.waiting == Waiting(4, NOW_MS)


class TestCosts:
    """The state that a batch touches follows from its rows."""

    def test_nothing_is_stored_of_waiting_logs_while_nothing_waits(self) -> None:
        store = MemoryState()
        for number in range(5):
            step(store, Log(number, None, (2, 2)).rows())
        assert waiting_values(store) == 0
        store.loads = store.saves = 0
        step(store, [])
        assert (store.loads, store.saves) == (1, 0)

    def test_a_small_batch_touches_few_of_many_waiting_logs(self) -> None:
        store = MemoryState()
        step(store, [row for number in range(2_000) for row in stray(number).rows()])
        store.loads = store.saves = store.saved_bytes = 0
        step(store, Log(5_000, None).rows())
        assert store.loads <= 8 and store.saves <= 4
        step(store, stray(6_000).rows())
        assert store.saved_bytes < 0.05 * state_bytes(store)

    def test_rows_of_many_waiting_logs_share_values(self) -> None:
        store = MemoryState()
        step(store, [row for number in range(2_000) for row in stray(number).rows()])
        assert len(store.of(SEGMENTS)) < 20
        assert max(map(len, store.of(SEGMENTS).values())) < 2 * waiting_logs.SEGMENT_BYTES

    def test_the_state_of_a_resolved_operation_is_32_bytes(self) -> None:
        store = MemoryState()
        step(store, Log(0, None, (1_000,)).rows())
        assert sum(map(len, store.of(OPERATIONS.runs).values())) == 32 * 1_000
        assert sum(map(len, store.of(LOGS.runs).values())) == 48

    def test_blocks_of_awaited_operations_are_those_of_keys(self) -> None:
        ids = [short_id(operation_id(0, at)) for at in range(200)]
        blocks = Keys.of(b"".join(ids)).blocks(BLOCKS)
        assert blocks.tolist() == [waiting_logs.awaited_block_of(name) for name in ids]
        assert len(np.unique(blocks)) > 80


class TestStateFormats:
    """State of another format or layout, or with missing parts, is refused."""

    def test_other_blocks_are_refused(self) -> None:
        store = MemoryState()
        step(store, Log(0, None).rows())
        with pytest.raises(StateLayoutError, match="4 blocks"):
            step(store, [*Log(1, None).rows()], replace(LAYOUT, blocks=8))

    @pytest.mark.parametrize("variable", [TOTALS, LOG_BLOCKS, AWAITED, SEGMENTS])
    def test_another_format_is_refused(self, variable: Variable[Any]) -> None:
        store = waiting_store()
        for key, blob in store.of(variable).items():
            store.save(variable, key, cbor2.dumps([9, *cbor2.loads(blob)[1:]]))
        with pytest.raises(StateLayoutError, match="format 9"):
            step(store, [row for log in chain(3) for row in log.rows()])

    @pytest.mark.parametrize("variable", [LOG_BLOCKS, AWAITED, SEGMENTS, LOGS.runs, OPERATIONS.runs])
    def test_missing_parts_are_refused(self, variable: Variable[Any]) -> None:
        store = waiting_store()
        for key in store.of(variable):
            store.save(variable, key, None)
        with pytest.raises(StateMissingError):
            step(store, [row for number in (10, 11) for row in Log(number, (7, 0)).rows()])
            step(store, [row for log in chain(3) for row in log.rows()])

    def test_rows_that_a_segment_lacks_are_refused(self) -> None:
        store = waiting_store()
        for key, blob in store.of(SEGMENTS).items():
            form, _ = cbor2.loads(blob)
            store.save(SEGMENTS, key, cbor2.dumps((form, {})))
        with pytest.raises(StateMissingError):
            step(store, [row for log in chain(3) for row in log.rows()])

    def test_every_variable_is_declared(self) -> None:
        assert {name for name, _ in waiting_store().values} == set(VARIABLES)

    def test_a_state_goes_on_after_a_copy(self) -> None:
        store = waiting_store()
        rows = [row for log in chain(3) for row in log.rows()]
        assert step(store.copy(), rows) == step(store, rows)


def waiting_store() -> MemoryState:
    """A state with a known log (number 7), and logs that wait for `chain(3)`."""
    store = MemoryState()
    waiting = [row for log in chain(3)[1:] for row in log.rows()]
    step(store, [*Log(7, None, (50,)).rows(), *waiting])
    return store
