"""Answers one line with one line: runs the operation, and returns its result or a stable error code."""

from __future__ import annotations

import json
from typing import Any, Final

from culm_models.conform import bamboo, bamboo_p2p, chotki, dag, p2panda, rbsr, sds
from culm_models.conform.arguments import ArgumentError, Arguments, RequestError
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.errors import CulmError, ModelError

# One line may hold a whole peer's entries in hex; longer lines are refused unread.
LINE_BYTES_MAX = 64 * 1024 * 1024
# Up to here, every integer is exact as an IEEE 754 double, the only number type of many JSON readers.
EXACT_INTEGER_MAX = (1 << 53) - 1


class UnknownOperationError(ModelError, code="conform.unknown_operation"):
    """No operation has this name."""


def _close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machines.close_all(arguments.text("name"))
    return {}


OPERATIONS: Final = (
    *bamboo.OPERATIONS,
    *p2panda.OPERATIONS,
    *rbsr.OPERATIONS,
    *sds.OPERATIONS,
    *chotki.OPERATIONS,
    *bamboo_p2p.OPERATIONS,
    *dag.OPERATIONS,
    ConformOperation("close", "name (of machines of any kind)", "", _close),
)
"""All operations, in the order of the documentation, one line per protocol."""


class Conformance:
    """One conversation, with the machines that its lines open.

    With ``big_integers_as_text``, integers beyond ``EXACT_INTEGER_MAX`` in successful answers are written as
    decimal digits in a string. Such strings are always accepted as integers.
    """

    def __init__(self, *, big_integers_as_text: bool = False) -> None:
        self._big_integers_as_text = big_integers_as_text
        self._machines = Machines()
        self._operations = {operation.name: operation for operation in OPERATIONS}

    def answer_line(self, line: str | bytes) -> str:
        """Answer one line, whatever it contains, with one JSON object without a newline."""
        return json.dumps(self._answer(line), separators=(",", ":"))

    def _answer(self, line: str | bytes) -> dict[str, Any]:
        identifier: Any = None
        try:
            request = self._parse(line)
            identifier = _repeatable(request.get("id"))
            name = request.get("do")
            operation = self._operations.get(name) if isinstance(name, str) else None
            if operation is None:
                raise UnknownOperationError(
                    f"there is no operation {str(name)[:100]!r}; see culm conform --list"
                )
            answer = operation.run(self._machines, Arguments(request))
            return {"id": identifier, "ok": _spelled(answer) if self._big_integers_as_text else answer}
        except CulmError as error:
            return {"id": identifier, "error": {"code": error.code, "message": str(error)}}
        except UnicodeEncodeError:
            # JSON can encode half of a surrogate pair; no format here can.
            refusal = ArgumentError("a text holds half a surrogate pair, which UTF-8 cannot spell")
            return {"id": identifier, "error": {"code": refusal.code, "message": str(refusal)}}
        except Exception as error:
            return {"id": identifier, "error": {"code": "conform.defect", "message": repr(error)[:500]}}

    @staticmethod
    def _parse(line: str | bytes) -> dict[str, Any]:
        if len(line) > LINE_BYTES_MAX:
            raise RequestError(f"the line is longer than {LINE_BYTES_MAX} bytes")
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the line is not JSON: {str(error)[:200]}") from None
        if not isinstance(request, dict):
            raise RequestError("the line is not a JSON object")
        return request


def _spelled(value: Any) -> Any:
    """Return ``value`` with its integers beyond ``EXACT_INTEGER_MAX`` as text."""
    if isinstance(value, dict):
        return {name: _spelled(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(part) for part in value]
    if isinstance(value, int) and not -EXACT_INTEGER_MAX <= value <= EXACT_INTEGER_MAX:
        return str(value)
    return value


def _repeatable(identifier: Any) -> Any:
    """Return the request's id, or None if JSON cannot repeat it: NaN, infinities, unlimited nesting."""
    try:
        json.dumps([[identifier]], allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return identifier
