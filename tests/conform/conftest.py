"""A conversation with `culm conform`, as an outside program would have it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from culm_models.conform.dispatch import Conformance


class Talk:
    """Asks one line at a time and checks the form of every answer."""

    def __init__(self) -> None:
        self._conformance = Conformance()
        self._next_id = 0

    def answer(self, do: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """The whole answer to one request."""
        self._next_id += 1
        line = self._conformance.answer_line(json.dumps({**arguments, "id": self._next_id, "do": do}))
        assert "\n" not in line
        answer: dict[str, Any] = json.loads(line)
        assert answer["id"] == self._next_id
        assert set(answer) in ({"id", "ok"}, {"id", "error"})
        return answer

    def ok(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What a request that succeeds is answered with."""
        answer = self.answer(do, arguments)
        assert "ok" in answer, answer
        fields: dict[str, Any] = answer["ok"]
        return fields

    def code(self, do: str, **arguments: Any) -> str:
        """The code of the error that a request is answered with."""
        answer = self.answer(do, arguments)
        assert "error" in answer, answer
        assert set(answer["error"]) == {"code", "message"}
        code: str = answer["error"]["code"]
        assert code != "conform.defect", answer
        return code

    def raw(self, line: str | bytes) -> dict[str, Any]:
        """The answer to a line as it stands; the answer is JSON in the strict sense."""
        answer = self._conformance.answer_line(line)
        assert "\n" not in answer
        decoded: dict[str, Any] = json.loads(answer, parse_constant=_refuse)
        assert decoded.get("error", {}).get("code") != "conform.defect", (line[:300], decoded)
        return decoded


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


@pytest.fixture
def talk() -> Talk:
    """A fresh conversation."""
    return Talk()
