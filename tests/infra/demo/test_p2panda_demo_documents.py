"""Two peers that edit one document at the same time, and the comparison of documents with the topic."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from culm_infra.demo.p2panda import actors as demo_actors
from culm_infra.demo.p2panda import documents
from culm_infra.demo.p2panda.actors import FinishedSessions, LiveClock
from culm_infra.demo.p2panda.concurrent_edits import ConcurrentEdits
from culm_infra.demo.p2panda.documents import compare_documents, held_documents, read_documents
from culm_infra.demo.p2panda.plan import make_plan
from culm_models.p2panda.operations.values import encode_value
from culm_topics.p2panda.documents.record import DocumentField, DocumentProblem, DocumentRecord

FIRST, SECOND = (b"\x00\x20" + bytes([number]) * 32 for number in (1, 2))


def record(version: int, title: str = "The Reed", *, offset: int = 0) -> DocumentRecord:
    field = DocumentField("title", encode_value(title), FIRST, bytes(32), 0, offset)
    return DocumentRecord("venue", bytes(32), "current", version, (FIRST,), (field,), 0, (), ())


async def test_both_peers_reduce_concurrent_edits_alike_before_and_after_the_merge(tmp_path: Path) -> None:
    plan = make_plan(2, 10, 3)
    wanted: dict[Any, Any] = {}
    async with AsyncExitStack() as stack:
        west, east = await demo_actors.enter(
            stack, plan, tmp_path, 3, LiveClock(), FinishedSessions("catch-up")
        )
        edits = ConcurrentEdits((west, east), plan.editors, wanted)

        async def replicated() -> None:
            for actor in (west, east):
                for writer in plan.editors:
                    await demo_actors.add(actor, writer.entries)

        await edits.play(replicated)
        assert not edits.differs
        assert [(before.version, len(before.view_id)) for before in edits.unmerged.values()] == [(3, 2)] * 2
        merged = [held_documents(actor, wanted) for actor in (west, east)]
    assert merged[0] == merged[1]
    [after] = merged[0].values()
    assert (after.version, len(after.view_id)) == (4, 1)
    authors = {field.name: field.author for field in after.fields}
    first, second = (writer.key_pair.public_key for writer in plan.editors)
    assert (authors["seats"], authors["open"], authors["note"]) == (first, second, first)
    rows = edits.rows(compare_documents({"peer-1": merged[0]}, merged[1]))
    assert [row["holder"] for row in rows] == ["peer-1", "peer-2", "peer-1", "topic documents"]
    assert len({row["digest"] for row in rows}) == 2
    assert len({row["title"] for row in rows}) == 1, "the merge leaves the field in conflict alone"


def test_documents_are_alike_if_all_have_the_same_bytes() -> None:
    held = {FIRST: record(2), SECOND: record(5)}
    audit = compare_documents({"west": held, "east": held}, held)
    assert (audit.documents, audit.alike, audit.behind, audit.differing) == (2, 2, 0, 0)


@pytest.mark.parametrize(
    ("west", "east", "topic", "behind", "differing"),
    [
        (record(2), record(2), record(1), 1, 0),
        (record(2), record(2), None, 1, 0),
        (record(2), record(2), record(2, "The Culm"), 0, 1),
        (record(2), record(2, "The Culm"), record(2), 0, 1),
        (record(2), None, record(2), 0, 1),
        (record(1), record(1), record(2), 0, 1),
    ],
)
def test_a_document_that_waiting_may_complete_is_told_from_one_that_differs(
    west: DocumentRecord | None,
    east: DocumentRecord | None,
    topic: DocumentRecord | None,
    behind: int,
    differing: int,
) -> None:
    def only(one: DocumentRecord | None) -> dict[bytes, DocumentRecord]:
        return {} if one is None else {FIRST: one}

    audit = compare_documents({"west": only(west), "east": only(east)}, only(topic))
    assert (audit.behind, audit.differing, audit.alike) == (behind, differing, 0)


def test_the_newest_record_of_a_document_counts_wherever_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record(1), record(3, "The Culm", offset=7), record(2)]
    messages = [SimpleNamespace(key=FIRST, value=each.encode()) for each in records]
    monkeypatch.setattr(documents, "read_to_end", lambda *_: messages)
    settings: Any = None
    assert read_documents(settings) == {FIRST: record(3, "The Culm")}


def test_problems_are_no_part_of_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = replace(record(1), problems=(DocumentProblem(SECOND, "p2panda.document.schema"),))
    messages = [SimpleNamespace(key=FIRST, value=refused.encode())]
    monkeypatch.setattr(documents, "read_to_end", lambda *_: messages)
    settings: Any = None
    assert read_documents(settings) == {FIRST: record(1)}
