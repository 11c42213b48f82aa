"""Every line is answered, in order, whatever it holds; a defect is never the answer.

The answers themselves are in the transcripts of `golden`: each operation, and each of its arguments wrong.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.conform.dispatch import OPERATIONS, Conformance
from culm_models.conform.sds.settings import ALIASES
from tests.conform.golden import transcript

COMMAND = [sys.executable, "-c", "from culm_infra.cli import main; main()", "conform"]
BIG = 2**64 - 1
KEY = "2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96"
SCHEMA = "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b"
NAMES = {operation.name: sorted(set(re.findall("[a-z_]+", operation.arguments))) for operation in OPERATIONS}
MEMBERS = [
    "type",
    "value",
    "timestamp",
    "log_heights",
    "session_id",
    "upper_bound",
    "payload",
    "end",
    *ALIASES,
]
# A machine of each kind, so that operations on machines get as far as their other arguments.
OPENED: list[dict[str, Any]] = [
    {"do": "p2panda.stream.open"},
    {"do": "p2panda.peer.open", "peer_id": "01", "schema_ids": [SCHEMA]},
    {"do": "p2panda.peer.connect", "remote_peer_id": "02"},
    {"do": "rbsr.open", "items": ["a", "b"], "monoid": "concat", "payload_threshold": 1, "range_division": 2},
    {"do": "sds.open", "participant_id": "a", "channel_id": "c"},
    {"do": "chotki.replica.open", "src": 10},
    {"do": "chotki.session.open", "session": "s"},
    {"do": "bymux.open"},
    {"do": "bamboo_p2p.peer.open"},
    {"do": "bamboo_p2p.peer.connect", "remote": "s", "role": "reactive"},
    {"do": "replica.open"},
    {"do": "order.open"},
    {"do": "publish.open"},
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=0, max_value=2**65)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=40).map(bytes.hex)
    | st.sampled_from(
        ["a", "s", "02", "\ud800", "-", "--1", "0x1", " 1", "²", str(BIG + 1), SCHEMA, "create"]
    )
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=8,
)
fuzz = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
MESSAGES = [
    json.loads(exchange.request)["message"]
    for path in transcript.transcripts()
    if path.name.startswith(("p2panda.", "rbsr."))
    for conversation in transcript.read(path)
    for exchange in conversation.exchanges
    if '"message":{' in exchange.request
]


@fuzz
@given(st.sampled_from(sorted(NAMES)), st.data())
def test_any_arguments_are_answered(do: str, data: st.DataObject) -> None:
    conformance = Conformance()
    common = {"name": "a", "now": 1}
    for line in OPENED:
        assert "ok" in json.loads(conformance.answer_line(json.dumps({**common, **line}))), line
    drawn = st.dictionaries(st.sampled_from(NAMES[do]), values) if NAMES[do] else st.just({})
    requests = [{**common, **data.draw(drawn), "do": do} for _ in range(3)]
    message = data.draw(st.sampled_from(MESSAGES))
    odd = {**message, data.draw(st.sampled_from(sorted(message))): data.draw(values)}
    requests += [
        {**common, "do": "p2panda.message.encode", "message": odd},
        {**common, "do": "rbsr.receive", "message": odd},
    ]
    for request in requests:
        answer = json.loads(conformance.answer_line(json.dumps({**request, "id": 1})), parse_constant=refuse)
        assert answer["id"] == 1
        assert answer.get("error", {}).get("code") != "conform.defect", (request, answer)


def refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


@fuzz
@given(line=st.binary(max_size=200) | st.text(max_size=200) | values.map(json.dumps))
def test_any_line_is_answered(line: str | bytes) -> None:
    answer = json.loads(Conformance().answer_line(line))
    assert answer["error"]["code"] in ("conform.request", "conform.unknown_operation")


@fuzz
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_answered_by_every_machine_that_reads_bytes(chunks: list[bytes]) -> None:
    conformance = Conformance()
    readers = [operation.name for operation in OPERATIONS if {"name", "bytes"} <= set(NAMES[operation.name])]
    common = {"name": "a", "now": 2, "remote_peer_id": "02", "session": "s", "remote": "s", "channel": "data"}
    for line in OPENED:
        conformance.answer_line(json.dumps({"name": "a", "now": 1, **line}))
    for chunk in chunks:
        for do in readers:
            answer = json.loads(
                conformance.answer_line(json.dumps({**common, "do": do, "bytes": chunk.hex()}))
            )
            assert answer.get("error", {}).get("code") != "conform.defect", answer


@pytest.mark.parametrize("line", ["[" * 100_000, '{"id":' + "[" * 100_000, '{"n":' + "9" * 5_000 + "}"])
def test_a_line_that_json_cannot_hold_is_answered(talk: Any, line: str) -> None:
    assert talk.raw(line)["error"]["code"] == "conform.request"


@pytest.mark.parametrize("identifier", ["NaN", "1e999", "-Infinity", "[NaN]", "[" * 900 + "]" * 900])
def test_an_id_that_cannot_be_repeated_still_gets_an_answer(talk: Any, identifier: str) -> None:
    assert talk.raw(f'{{"id": {identifier}, "do": "varu64.encode", "n": 1}}')["ok"] == {"bytes": "01"}


def test_a_caller_whose_numbers_are_doubles_loses_nothing(talk: Any) -> None:
    conformance = Conformance(big_integers_as_text=True)

    def rounded(text: str) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(text, parse_int=lambda digits: int(float(digits)))
        return read

    def ask(do: str, **arguments: Any) -> Any:
        request = rounded(json.dumps({"do": do, **arguments}))
        return rounded(conformance.answer_line(json.dumps(request)))["ok"]

    heights = [[KEY, BIG, 2**53], [KEY, 1, 2**53 - 1]]
    messages: list[dict[str, Any]] = [
        {"type": "announce", "version": 1, "timestamp": BIG, "schema_ids": ["blob_v1"]},
        {"type": "sync_done", "session_id": 2**53 + 1, "live_mode": True},
        {"type": "have", "session_id": 0, "log_heights": heights},
        {"type": "lower_bound", "session_id": 1, "value": [KEY, 2**60 + 1, BIG]},
    ]
    ask("p2panda.stream.open", name="s")
    for message in messages:
        encoded = talk.ok("p2panda.message.encode", message=message)
        (read,) = ask("p2panda.stream.feed", name="s", **encoded)["messages"]
        assert ask("p2panda.message.encode", message=read) == encoded
    fields = {"a": {"type": "int", "value": -(2**63)}, "b": {"type": "int", "value": 2**63 - 1}}
    create = talk.ok("p2panda.operation.encode", action="create", schema_id=SCHEMA, fields=fields)
    assert ask("p2panda.operation.encode", **ask("p2panda.operation.decode", **create)) == create


def test_the_program_answers_each_line_in_order_and_goes_on() -> None:
    lines = [b'{"id": 1, "do": "varu64.decode", "bytes": "ffffffffffffffffff"}', b"no json", b"\xff", b""]
    lines += [b"[" * 100_000, b'{"id": 2, "do": "yasmf.hash", "bytes": "030201"}']
    for options, n in (([], BIG), (["--big-ints-as-text"], str(BIG))):
        done = subprocess.run(
            [*COMMAND, *options], input=b"\n".join(lines), capture_output=True, timeout=60, check=True
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [answer["id"] for answer in answers] == [1, None, None, None, None, 2]
        assert answers[0]["ok"]["n"] == n
        assert [answer["error"]["code"] for answer in answers[1:5]] == ["conform.request"] * 4


def test_the_program_lists_every_operation() -> None:
    done = subprocess.run([*COMMAND, "--list", "--json"], capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["do"] for line in done.stdout.splitlines()] == [
        operation.name for operation in OPERATIONS
    ]
    plain = subprocess.run([*COMMAND, "--list"], capture_output=True, timeout=60, check=True)
    assert b"p2panda.peer.open" in plain.stdout
