"""Every line is answered, in order, whatever it holds; a defect is never the answer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.conform.dispatch import OPERATIONS, Conformance

NAMES = [operation.name for operation in OPERATIONS]
COMMAND = [sys.executable, "-c", "from culm_infra.cli import main; main()", "conform"]
ARGUMENT_NAMES = (
    "n",
    "bytes",
    "entry",
    "operation",
    "verify",
    "private_key",
    "log_id",
    "seq_num",
    "skiplink",
    "backlink",
    "end_of_log",
    "version",
    "action",
    "schema_id",
    "previous",
    "fields",
    "message",
    "compat",
    "name",
    "max_message_bytes",
    "peer_id",
    "schema_ids",
    "modes",
    "live_mode",
    "settings",
    "entries",
    "now",
    "random_seed",
    "remote_peer_id",
    "dialled",
    "mode",
    "session_id",
)
SCHEMA = "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b"

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=0, max_value=2**65)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=40).map(bytes.hex)
    | st.sampled_from(["a", "\ud800", "-", "--1", "0x1", " 1", "²", "18446744073709551616", SCHEMA, "create"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*ARGUMENT_NAMES, "type", "value", "timestamp", "log_heights"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
fuzz = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def request(**fields: Any) -> str:
    """One line."""
    return json.dumps({"id": 1, **fields})


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", "conform.request"),
        ("\n", "conform.request"),
        ("no json", "conform.request"),
        ("[]", "conform.request"),
        ("7", "conform.request"),
        ('{"id": 1', "conform.request"),
        (b"\xff\xfe\x00", "conform.request"),
        ("[" * 100_000, "conform.request"),
        ('{"id":' + "[" * 100_000, "conform.request"),
        ('{"n":' + "9" * 5_000 + "}", "conform.request"),
        ("{}", "conform.unknown_operation"),
        ('{"do": 7}', "conform.unknown_operation"),
        ('{"do": "varu64"}', "conform.unknown_operation"),
        ('{"do": "\\ud800"}', "conform.unknown_operation"),
        (request(do="varu64.encode"), "conform.argument"),
        (request(do="varu64.encode", n=None), "conform.argument"),
        (request(do="varu64.encode", n=True), "conform.argument"),
        (request(do="varu64.encode", n=1.0), "conform.argument"),
        (request(do="varu64.encode", n=-1), "conform.argument"),
        (request(do="varu64.encode", n=2**64), "conform.argument"),
        (request(do="varu64.encode", n="--1"), "conform.argument"),
        ('{"do": "varu64.encode", "n": NaN}', "conform.argument"),
        (request(do="yasmf.hash", bytes="0"), "conform.argument"),
        (request(do="yasmf.hash", bytes="00 00"), "conform.argument"),
        (request(do="yasmf.hash", bytes=[0]), "conform.argument"),
        (request(do="p2panda.stream.feed", name="x", bytes=""), "conform.machine"),
        (request(do="p2panda.peer.state", name="x"), "conform.machine"),
    ],
)
def test_a_line_that_cannot_be_done_is_answered_with_its_code(talk: Any, line: str, code: str) -> None:
    assert talk.raw(line)["error"]["code"] == code


def test_integers_may_be_decimal_strings(talk: Any) -> None:
    assert talk.ok("varu64.encode", n=str(2**64 - 1)) == talk.ok("varu64.encode", n=2**64 - 1)


@pytest.mark.parametrize("identifier", ["NaN", "1e999", "-Infinity", "[NaN]", "[" * 900 + "]" * 900])
def test_an_id_that_cannot_be_repeated_still_gets_an_answer(talk: Any, identifier: str) -> None:
    assert talk.raw(f'{{"id": {identifier}, "do": "varu64.encode", "n": 1}}')["ok"] == {"bytes": "01"}


def test_a_name_is_taken_until_it_is_closed(talk: Any) -> None:
    talk.ok("p2panda.stream.open", name="s")
    assert talk.code("p2panda.stream.open", name="s") == "conform.machine"
    for close in ("p2panda.stream.close", "close"):
        assert talk.ok(close, name="s") == {}
        assert talk.code(close, name="s") == "conform.machine"
        talk.ok("p2panda.stream.open", name="s")


def test_closing_a_name_closes_machines_of_every_kind(talk: Any) -> None:
    talk.ok("p2panda.stream.open", name="s")
    talk.ok("p2panda.peer.open", name="s", peer_id="01", schema_ids=[SCHEMA], now=1)
    talk.ok("p2panda.stream.open", name="other")
    talk.ok("close", name="s")
    assert talk.code("p2panda.peer.state", name="s") == "conform.machine"
    talk.ok("p2panda.stream.feed", name="other", bytes="")


@pytest.mark.parametrize(
    "wrong",
    [
        {"modes": 5},
        {"modes": [[]]},
        {"modes": ["x"]},
        {"modes": []},
        {"compat": "other"},
        {"max_events": 2**70},
        {"max_events": 0},
        {"max_message_bytes": 2**70},
        {"max_message_bytes": -1},
        {"sync_interval_ms": "five"},
        {"sync_interval_ms": -1},
        {"unknown": 1},
    ],
)
def test_settings_that_do_not_fit_are_refused(talk: Any, wrong: dict[str, Any]) -> None:
    opened = {"name": "a", "peer_id": "01", "schema_ids": [SCHEMA], "now": 1, "settings": wrong}
    assert talk.code("p2panda.peer.open", **opened) == "conform.argument"


def test_a_peer_does_not_connect_to_itself(talk: Any) -> None:
    talk.ok("p2panda.peer.open", name="a", peer_id="01", schema_ids=[SCHEMA], now=1)
    assert talk.code("p2panda.peer.connect", name="a", remote_peer_id="01", now=1) == "conform.argument"


def test_a_lone_surrogate_is_refused_as_text(talk: Any) -> None:
    field: Any = {"x": {"type": "str", "value": "\ud800"}}
    talk.code("p2panda.operation.encode", action="create", schema_id=SCHEMA, fields=field)
    field = {"\ud800": {"type": "int", "value": 1}}
    talk.code("p2panda.operation.encode", action="create", schema_id=SCHEMA, fields=field)
    talk.code("p2panda.schema_id.parse", schema_id="\ud800")


@fuzz
@given(name=st.sampled_from(NAMES), arguments=st.dictionaries(st.sampled_from(ARGUMENT_NAMES), values))
def test_any_arguments_are_answered(name: str, arguments: dict[str, Any]) -> None:
    conformance = Conformance()
    answer = json.loads(conformance.answer_line(json.dumps({**arguments, "id": 1, "do": name})))
    assert answer["id"] == 1
    assert answer.get("error", {}).get("code") != "conform.defect", answer


@fuzz
@given(line=st.binary(max_size=200) | st.text(max_size=200) | values.map(json.dumps))
def test_any_line_is_answered(line: str | bytes) -> None:
    answer = json.loads(Conformance().answer_line(line))
    assert answer["error"]["code"] in ("conform.request", "conform.unknown_operation")


@fuzz
@given(chunks=st.lists(st.binary(max_size=60), max_size=5), message=values)
def test_any_bytes_and_messages_are_answered(chunks: list[bytes], message: Any) -> None:
    conformance = Conformance()
    lines: list[dict[str, Any]] = [
        {"do": "p2panda.peer.open", "name": "a", "peer_id": "01", "schema_ids": [SCHEMA], "now": 1},
        {"do": "p2panda.peer.connect", "name": "a", "remote_peer_id": "02", "now": 1},
        {"do": "p2panda.stream.open", "name": "a"},
        {"do": "p2panda.message.encode", "message": message},
    ]
    for chunk in chunks:
        fed = {"name": "a", "bytes": chunk.hex(), "remote_peer_id": "02", "now": 2}
        lines += [{**fed, "do": "p2panda.stream.feed"}, {**fed, "do": "p2panda.peer.receive"}]
    for line in lines:
        answer = json.loads(conformance.answer_line(json.dumps(line)))
        assert answer.get("error", {}).get("code") != "conform.defect", answer


def test_the_program_answers_each_line_in_order_and_goes_on() -> None:
    lines = [b'{"id": 1, "do": "varu64.encode", "n": 300}', b"no json", b"\xff", b"", b"[" * 100_000]
    lines.append(b'{"id": 2, "do": "yasmf.hash", "bytes": "030201"}')
    done = subprocess.run(COMMAND, input=b"\n".join(lines), capture_output=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, None, None, None, None, 2]
    assert answers[0]["ok"] == {"bytes": "f9012c"}
    assert [answer["error"]["code"] for answer in answers[1:5]] == ["conform.request"] * 4


def test_the_program_lists_every_operation() -> None:
    done = subprocess.run([*COMMAND, "--list", "--json"], capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["do"] for line in done.stdout.splitlines()] == NAMES
    plain = subprocess.run([*COMMAND, "--list"], capture_output=True, timeout=60, check=True)
    assert b"p2panda.peer.open" in plain.stdout
