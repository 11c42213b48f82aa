"""The OpenAPI document, made of the table that makes the routes."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from culm_connectors.dag.http.answers.schemas import Problem
from culm_connectors.dag.http.problems import PROBLEM_TYPE
from culm_connectors.dag.http.routes import COMMON_PROBLEMS, OPERATIONS, HttpOperation

_COMPONENTS: Final = "#/components/schemas/{model}"


def openapi_document() -> dict[str, Any]:
    """The document that the door serves as `/openapi.json`."""
    models: dict[type[BaseModel], None] = {Problem: None}
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        for _, types in one.answers.values():
            models |= {model: None for _, held in types for model in held}
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    _, schemas = models_json_schema([(model, "serialization") for model in models], ref_template=_COMPONENTS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Culm: DAG replication and publishing",
            "version": "1",
            "description": "What is read is verified by its CIDs: nobody needs to trust this door.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "a configured token, or the JWT of a UCAN with dag/append or dag/read",
                }
            },
        },
        "security": [{}, {"bearer": []}],
    }


def _operation(one: HttpOperation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "parameters": [
            {
                "name": parameter.name,
                "in": parameter.place,
                "required": parameter.is_required,
                "description": parameter.description,
                "schema": {"type": "string"},
            }
            for parameter in one.parameters
        ],
        "responses": _responses(one),
    }
    if one.bodies:
        found["requestBody"] = {"required": True, "content": {name: {} for name in one.bodies}}
    return found


def _responses(one: HttpOperation) -> dict[str, Any]:
    problem = {PROBLEM_TYPE: {"schema": {"$ref": _COMPONENTS.format(model=Problem.__name__)}}}
    found: dict[str, Any] = {}
    for status in (*COMMON_PROBLEMS, *one.problems):
        found[str(status)] = {"description": "refused, with a code", "content": dict(problem)}
    for status, (meaning, types) in one.answers.items():
        content = {name: _schema(models) for name, models in types}
        known = found.get(str(status), {}).get("content", {})
        found[str(status)] = {"description": meaning, "content": {**known, **content}}
    return found


def _schema(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    refs = [{"$ref": _COMPONENTS.format(model=model.__name__)} for model in models]
    if not refs:
        return {}
    return {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}
