"""Every function of the packages is used: its name occurs more often than it is defined."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.house.tree import FLOORS, ROOT

USERS = (*FLOORS, "tests", "bench", "examples")
REGISTERED_BY_DECORATOR = re.compile(r"_validator\(|\.command\(")
CALLED_BY_A_LIBRARY = frozenset(
    {
        # Spark's StatefulProcessor.
        *("handleInputRows", "handleExpiredTimer", "handleInitialState"),
        # asyncio, aioquic, uvicorn.
        *("eof_received", "_write_stream_limits", "_write_connection_limits", "_handle_padding_frame"),
        *("capture_signals"),
        # socketserver and wsgiref.
        *("server_bind", "service_actions", "handle_error", "get_stderr"),
    }
)


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods that a file defines, without those whose decorator registers them."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(REGISTERED_BY_DECORATOR.search(ast.unparse(mark)) for mark in node.decorator_list)
    ]


def test_no_function_is_never_called() -> None:
    defined = {path: functions(path) for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))}
    definitions = Counter(node.name for nodes in defined.values() for node in nodes)
    words: Counter[str] = Counter()
    for folder in USERS:
        for path in (ROOT / folder).rglob("*.py"):
            words.update(re.findall(r"\w+", path.read_text()))
    never_called = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, nodes in defined.items()
        for node in nodes
        if words[node.name] <= definitions[node.name]
        and not node.name.startswith("__")
        and node.name not in CALLED_BY_A_LIBRARY
    ]
    assert never_called == []


def test_no_request_is_made_that_ends_the_process_when_a_broker_is_starting() -> None:
    """An admin client's requests to a group's coordinator do (`culm_topics.kafka.job_positions`)."""
    requests = re.compile(
        r"\.(\w+_consumer_group_offsets|(describe|delete)_consumer_groups|describe_transactions)\("
    )
    asked = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for folder in (*FLOORS, "bench", "tests/support")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in requests.finditer(path.read_text())
    ]
    assert asked == []
