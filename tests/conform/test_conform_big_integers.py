"""A caller whose JSON numbers are doubles loses nothing: integers go both ways as text."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from culm_models.conform.dispatch import Conformance

KEY = "2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96"
SCHEMA = "schema_definition_v1"
BIG = 2**64 - 1
MESSAGES: list[dict[str, Any]] = [
    {"type": "announce", "version": 1, "timestamp": BIG, "schema_ids": [SCHEMA]},
    {"type": "sync_request", "session_id": BIG, "mode": 0, "schema_ids": [SCHEMA]},
    {"type": "sync_done", "session_id": 2**53 + 1, "live_mode": True},
    {"type": "have", "session_id": 0, "log_heights": [[KEY, BIG, 2**53], [KEY, 1, 2**53 - 1]]},
    {"type": "lower_bound", "session_id": 1, "value": [KEY, 2**60 + 1, BIG]},
]


class Doubles:
    """A caller in a language whose numbers are doubles; it rounds what it reads and what it writes."""

    def __init__(self) -> None:
        self._conformance = Conformance(big_integers_as_text=True)

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer as this caller reads it."""
        return self._read(self._conformance.answer_line(json.dumps(self._read(json.dumps(request)))))

    @staticmethod
    def _read(text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(text, parse_int=lambda digits: int(float(digits)))
        return found


def as_text(value: Any) -> Any:
    """The value with all its integers as text."""
    if isinstance(value, dict):
        return {name: as_text(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_text(part) for part in value]
    return str(value) if type(value) is int else value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message["type"]))
def test_messages_come_through_a_caller_that_rounds(talk: Any, message: dict[str, Any]) -> None:
    data = talk.ok("p2panda.message.encode", message=message)["bytes"]
    caller = Doubles()
    caller.ask(id=1, do="p2panda.stream.open", name="s")
    (read,) = caller.ask(id=2, do="p2panda.stream.feed", name="s", bytes=data)["ok"]["messages"]
    assert caller.ask(id=3, do="p2panda.message.encode", message=read)["ok"] == {"bytes": data}
    assert caller.ask(id=4, do="p2panda.message.encode", message=as_text(message))["ok"] == {"bytes": data}


def test_fields_and_entries_come_through_a_caller_that_rounds(talk: Any) -> None:
    fields = {"a": {"type": "int", "value": -(2**63)}, "b": {"type": "int", "value": 2**63 - 1}}
    create = talk.ok("p2panda.operation.encode", action="create", schema_id=SCHEMA, fields=fields)
    signed = talk.ok("bamboo.entry.sign", private_key="07" * 32, log_id=BIG, seq_num=1, **create)
    caller = Doubles()
    read = caller.ask(id=1, do="p2panda.operation.decode", **create)["ok"]
    assert caller.ask(id=2, do="p2panda.operation.encode", **read)["ok"] == create
    assert caller.ask(id=3, do="bamboo.entry.decode", entry=signed["entry"])["ok"]["log_id"] == str(BIG)


def test_what_a_double_holds_stays_a_number() -> None:
    conformance = Conformance(big_integers_as_text=True)

    def decoded(n: int) -> Any:
        encoded = json.loads(conformance.answer_line(json.dumps({"do": "varu64.encode", "n": n})))["ok"]
        return json.loads(conformance.answer_line(json.dumps({"do": "varu64.decode", **encoded})))["ok"]["n"]

    assert [decoded(2**53 - 1), decoded(2**53), decoded(BIG)] == [2**53 - 1, str(2**53), str(BIG)]


def test_an_id_is_repeated_as_it_came() -> None:
    answer = Conformance(big_integers_as_text=True).answer_line(json.dumps({"id": BIG, "do": "x"}))
    assert json.loads(answer)["id"] == BIG


def test_the_program_has_the_option() -> None:
    line = json.dumps({"id": 1, "do": "varu64.decode", "bytes": "ff" * 9}).encode()
    command = [sys.executable, "-c", "from culm_infra.cli import main; main()", "conform"]
    found = [
        subprocess.run([*command, *options], input=line, capture_output=True, timeout=60, check=True).stdout
        for options in ([], ["--big-ints-as-text"])
    ]
    assert [json.loads(answer)["ok"]["n"] for answer in found] == [BIG, str(BIG)]
