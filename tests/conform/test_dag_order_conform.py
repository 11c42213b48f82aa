"""The total order through lines: the vectors, and arguments that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import recorded


@pytest.mark.parametrize("row", recorded("order"), ids=lambda row: row["name"])
def test_recorded_orders(talk: Any, row: dict[str, Any]) -> None:
    state = {name: row[name] for name in ("heads", "order", "tip", "key", "held")}
    talk.ok("order.open", name="a")
    for step in row["steps"]:
        found = talk.ok("order.add", name="a", cid=step["cid"], prior=step["prior"])
        assert found == {name: step[name] for name in ("tip", "from", "changed", "held")}
    assert talk.ok("order.state", name="a") == state
    assert talk.ok("order.of", ops=[[step["cid"], step["prior"]] for step in row["steps"]]) == state


@pytest.mark.parametrize(
    ("do", "arguments", "code"),
    [
        ("order.of", {}, "conform.request"),
        ("order.of", {"ops": [["bafkqaaa"]]}, "conform.request"),
        ("order.of", {"ops": [["bafkqaaa", "x"]]}, "dag.bad_cid"),
        ("order.of", {"ops": [["bafkqaaa", None], ["bafkqaaa", "bafkqaaa"]]}, "conform.request"),
        ("order.add", {"name": "none", "cid": "bafkqaaa"}, "conform.machine"),
    ],
)
def test_codes(talk: Any, do: str, arguments: dict[str, Any], code: str) -> None:
    assert talk.code(do, **arguments) == code


def test_nothing_in_order(talk: Any) -> None:
    empty: dict[str, Any] = {"heads": [], "order": [], "tip": None, "key": []}
    assert talk.ok("order.of", ops=[]) == {**empty, "held": []}
    assert talk.ok("order.of", ops=[["bafkqaaa", "bafkqaaa"]]) == {**empty, "held": ["bafkqaaa"]}
