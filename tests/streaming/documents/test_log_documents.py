"""Each log finds its document, whatever arrives first, in whatever batches, and whatever else waits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from culm_streaming.p2panda_documents.log_documents import (
    LogDocumentsOutput,
    log_documents_step,
)
from culm_streaming.p2panda_documents.rows import ArrivedRows, DocumentRows, LogRows, RejectedRow, short_id
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.progress import Waiting
from culm_streaming.stateful.job_state import MemoryState
from tests.support.p2panda.document_logs import (
    LAYOUT,
    NOW_MS,
    SCHEMA,
    Log,
    chain,
    codes,
    operation_id,
    state_bytes,
    step,
    stray,
    waiting_values,
)


def documents_of(outputs: Iterable[LogDocumentsOutput]) -> dict[bytes, Counter[bytes]]:
    """Return the operations of each document, by document id."""
    documents: dict[bytes, Counter[bytes]] = {}
    for output in outputs:
        for row in output.resolved:
            ids = [row.operations[at : at + 34] for at in range(0, len(row.operations), 34)]
            documents.setdefault(row.document_id, Counter()).update(ids)
    return documents


def expected_documents(logs: Sequence[Log]) -> dict[bytes, set[bytes]]:
    """Return the operations of each document, from the definition."""
    documents: dict[bytes, set[bytes]] = {}
    by_number = {log.number: log for log in logs}
    for log in logs:
        root: Log | None = log
        while root is not None and root.follows is not None:
            number, at = root.follows
            root = by_number.get(number)
            if root is not None and not 0 <= at < sum(root.sizes):
                root = None
        if root is not None:
            documents.setdefault(operation_id(root.number, 0), set()).update(log.operations)
    return documents


def assert_same_documents(outputs: Iterable[LogDocumentsOutput], logs: Sequence[Log]) -> None:
    assert {name: set(found) for name, found in documents_of(outputs).items()} == expected_documents(logs)


@st.composite
def forests(draw: st.DrawFn) -> list[Log]:
    """Logs of few authors that follow operations of earlier logs, of absent logs, or none."""
    logs: list[Log] = []
    for number in range(draw(st.integers(1, 9))):
        sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
        kind = draw(st.integers(0, 5))
        follows = None
        if kind == 0:
            follows = (1_000 + draw(st.integers(0, 1)), 0)
        elif kind > 1 and logs:
            predecessor = draw(st.sampled_from(logs))
            follows = (predecessor.number, draw(st.integers(0, sum(predecessor.sizes) - 1)))
        logs.append(Log(number, follows, sizes, author=draw(st.integers(0, 2))))
    return logs


def interleaved(source: random.Random, logs: Sequence[Log], repeats: int) -> list[LogRows]:
    """Return the rows of all logs: each log in its order, the logs in any, and some rows again."""
    queues = [log.rows() for log in logs]
    rows: list[LogRows] = []
    while any(queues):
        rows.append(source.choice([queue for queue in queues if queue]).pop(0))
    for _ in range(repeats):
        at = source.randrange(len(rows))
        rows.insert(source.randint(at + 1, len(rows)), rows[at])
    return rows


def in_batches(source: random.Random, rows: Sequence[LogRows]) -> list[list[LogRows]]:
    ends = sorted(source.randint(0, len(rows)) for _ in range(source.randint(0, 6)))
    return [list(rows[a:b]) for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]


@given(forests(), st.integers(0, 2**32), st.integers(0, 3), st.integers(1, 3))
def test_every_order_and_batching_gives_the_same_documents(
    logs: list[Log], seed: int, repeats: int, blocks: int
) -> None:
    source, store = random.Random(seed), MemoryState()
    rows = interleaved(source, logs, repeats)
    layout = DocumentsLayout(blocks=blocks)
    outputs = [step(store, batch, layout) for batch in in_batches(source, rows)]
    assert_same_documents(outputs, logs)
    assert not any(output.refused for output in outputs)
    known = set().union(*expected_documents(logs).values())
    assert sum(sum(found.values()) for found in documents_of(outputs).values()) == sum(
        len(row.operations) // 34 for row in rows if row.operations[:34] in known
    )
    unknown = sum(1 for log in logs if log.operations[0] not in known)
    waiting = step(store, []).waiting
    assert (waiting.logs if waiting else 0) == unknown
    assert unknown or waiting_values(store) == 0


@given(forests(), st.integers(0, 2**32))
def test_the_order_of_rows_within_a_batch_leaves_no_trace(logs: list[Log], seed: int) -> None:
    source = random.Random(seed)
    stores = [MemoryState(), MemoryState()]
    for batch in in_batches(source, interleaved(source, logs, 2)):
        shuffled = source.sample(batch, len(batch))
        assert step(stores[0], batch) == step(stores[1], shuffled)
        assert stores[0].values == stores[1].values


def test_authors_schemas_and_operations_are_passed_on() -> None:
    log = Log(3, None, (2,))
    (row,) = log.rows()
    output = step(MemoryState(), [row])
    assert output.resolved == [DocumentRows(operation_id(3, 0), log.key, SCHEMA, row.operations)]
    assert output.refused == [] and output.waiting is None


def test_six_logs_that_arrive_in_reverse_order_belong_to_one_document() -> None:
    logs, store = chain(6), MemoryState()
    outputs = [step(store, log.rows(), now_ms=NOW_MS + 5 - log.number) for log in reversed(logs)]
    assert [len(output.resolved) for output in outputs] == [0, 0, 0, 0, 0, 6]
    assert [output.waiting for output in outputs] == [
        *(Waiting(count, NOW_MS) for count in range(1, 6)),
        Waiting(0, 0),
    ]
    assert_same_documents(outputs, logs)
    assert step(store, []).waiting is None
    assert waiting_values(store) == 0


def test_six_logs_of_one_batch_belong_to_one_document() -> None:
    logs, store = chain(6), MemoryState()
    output = step(store, [row for log in reversed(logs) for row in log.rows()])
    assert_same_documents([output], logs)
    assert output.waiting is None and waiting_values(store) == 0


def test_a_log_follows_an_operation_that_a_known_log_brought_in_an_earlier_batch() -> None:
    store, logs = MemoryState(), [Log(0, None, (1, 1)), Log(1, (0, 1)), Log(2, (1, 0))]
    outputs = [step(store, [row]) for log in logs for row in log.rows()]
    assert_same_documents(outputs, logs)
    assert all(output.waiting is None for output in outputs)


def test_a_chain_of_a_thousand_logs_is_resolved_by_its_first_one() -> None:
    store, logs = MemoryState(), chain(1_000)
    outputs = [step(store, [row for log in logs[1:] for row in log.rows()]), step(store, logs[0].rows())]
    assert_same_documents(outputs, logs)
    assert waiting_values(store) == 0


def test_thousands_of_logs_in_random_order_find_their_documents() -> None:
    source, store, logs = random.Random(31), MemoryState(), list[Log]()
    for number in range(3_000):
        predecessor = source.choice(logs) if logs and source.random() < 0.8 else None
        follows = predecessor and (predecessor.number, source.randrange(sum(predecessor.sizes)))
        logs.append(Log(number, follows, (2, 1), author=number % 7))
    rows = interleaved(source, logs, 200)
    outputs = [step(store, rows[start : start + 450]) for start in range(0, len(rows), 450)]
    assert_same_documents(outputs, logs)
    assert not any(output.refused for output in outputs)
    assert waiting_values(store) == 0


def test_a_released_log_also_releases_a_log_that_has_just_started() -> None:
    store, logs = MemoryState(), chain(3)
    outputs = [step(store, logs[1].rows()), step(store, [*logs[2].rows(), *logs[0].rows()])]
    assert_same_documents(outputs, logs)


def test_logs_that_follow_each_other_in_a_circle_wait_without_end() -> None:
    store = MemoryState()
    circle = [Log(0, (1, 0)), Log(1, (0, 0)), Log(2, (2, 0))]
    for _ in range(2):
        output = step(store, [row for log in circle for row in log.rows()])
        assert (output.resolved, output.waiting) == ([], Waiting(3, NOW_MS))
    assert len(step(store, Log(3, None).rows()).resolved) == 1


def test_operations_that_share_half_of_their_short_id_are_not_confused() -> None:
    store, first = MemoryState(), operation_id(0, 0)
    (row,) = Log(0, None).rows()
    absent = first[:10] + bytes(24)
    similar = first[:10] + b"\1" * 24
    step(store, [row._replace(short_ids=short_id(first) + short_id(similar))])
    (follower,) = Log(1, (5, 0)).rows()
    assert step(store, [follower._replace(starts_with=absent)]).resolved == []
    assert len(step(store, [follower._replace(log=Log(2, None).key, starts_with=similar)]).resolved) == 1


def test_refused_rows_of_earlier_tasks_are_passed_on_in_order() -> None:
    refused = [RejectedRow(b"b", b"2"), RejectedRow(b"a", b"1")]
    output = log_documents_step(MemoryState(), ArrivedRows([], refused), LAYOUT, NOW_MS)
    assert output.refused == sorted(refused)


def test_a_repeated_create_is_emitted_again_and_costs_no_state() -> None:
    store, rows = MemoryState(), Log(0, None, (2, 3)).rows()
    first = step(store, rows)
    size = state_bytes(store)
    for _ in range(20):
        assert step(store, rows) == first
    assert state_bytes(store) == size


def test_an_endless_stream_of_logs_that_never_find_a_document_is_bounded() -> None:
    layout = replace(LAYOUT, max_waiting_logs=40, max_waiting_bytes=6_000)
    store, sizes, number = MemoryState(), [], 100
    honest = chain(4)
    arriving = [row for log in reversed(honest) for row in log.rows()]
    refused, outputs = Counter[bytes](), []
    for batch in range(60):
        strays = [row for log in map(stray, range(number, number + 8)) for row in log.rows()]
        number += 8
        output = step(store, [*strays, *(arriving[batch - 20 : batch - 19] if batch >= 20 else [])], layout)
        outputs.append(output)
        refused.update(key for key, _ in codes(output))
        assert output.waiting is not None and output.waiting.logs <= 40
        sizes.append(state_bytes(store))
    assert_same_documents(outputs, honest)
    assert max(sizes[30:]) <= max(sizes[10:30]) + 500
    assert outputs[-1].waiting == Waiting(number - 100 - sum(refused.values()), NOW_MS)
    assert set(refused.values()) == {1}
