"""Ids of p2panda in arguments and options. A wrong one is a usage error that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from culm_models.p2panda.operations.identifiers import DocumentViewId, OperationId

Id = TypeVar("Id")


def operation_id(text: str, what: str) -> OperationId:
    """Parse the id of an operation or a document. Raises `typer.BadParameter`."""
    from culm_models.p2panda.operations.identifiers import parse_operation_id

    return _parsed(parse_operation_id, text, what)


def view_id(text: str, what: str) -> DocumentViewId:
    """Parse the id of a document's view. Raises `typer.BadParameter`."""
    from culm_models.p2panda.operations.identifiers import parse_view_id

    return _parsed(parse_view_id, text, what)


def _parsed(parse: Callable[[str], Id], text: str, what: str) -> Id:
    from culm_models.p2panda.operations.identifiers import DocumentViewIdError

    try:
        return parse(text)
    except DocumentViewIdError as error:
        raise typer.BadParameter(str(error), param_hint=what) from error


def check_schema_id(text: str, what: str) -> None:
    """Check the form of a schema id. Raises `typer.BadParameter`."""
    from culm_models.p2panda.operations.identifiers import SchemaIdError, canonical_text

    try:
        canonical_text(text)
    except SchemaIdError as error:
        raise typer.BadParameter(
            f"{error}: give the schema's name and the operation ids of its definition, joined by `_`, or a "
            "system schema such as schema_definition_v1",
            param_hint=what,
        ) from error
