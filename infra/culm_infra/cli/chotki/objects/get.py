"""``culm chotki get``: objects as they are merged."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.reading import object_as_json, whole_state
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import emit_json, print_table, say

if TYPE_CHECKING:
    from culm_topics.chotki.objects import ChotkiObject


@spread
def get(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[OBJECT]",
            help="Only this object, by its global name or ID.",
            autocompletion=complete_name,
        ),
    ] = None,
    *,
    class_: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Objects of this class, by name or ID.",
            autocompletion=complete_name,
        ),
    ] = None,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """Print an object, those of a class, or all of them, as of the last epoch; with `--json` one a line.

    A field that was never written is `null`; what was removed of a set or a map stands in `removed`.

    Example: `culm chotki get ann`, `culm chotki get --class person --json`
    """
    from culm_topics.chotki.errors import ObjectUnknown
    from culm_topics.chotki.objects import Objects

    with whole_state(kafka.settings(), json=json) as reader:
        view = Objects(reader.state.table)
        ids = None if class_ is None else view.ids_of_class(view.resolve(class_))
        if name is not None:
            id = view.resolve(name)
            ids = iter([id] if ids is None else [one for one in ids if one == id])
        found = list(view.objects(ids))
    if name is not None and not found:
        raise ObjectUnknown(f"there is no such object: {name}")
    if json:
        for one in found:
            emit_json(object_as_json(one))
    elif name is not None:
        _show(found[0])
    elif not found:
        say("no objects")
    else:
        rows = (
            (one.id, _class_name(one), ", ".join(one.names), _fields(object_as_json(one))) for one in found
        )
        print_table(None, ("id", "class", "names", "fields"), rows)


def _show(found: ChotkiObject) -> None:
    plain = object_as_json(found)
    removed = plain.get("removed", {})
    rows = [
        (name, plain["types"].get(name, ""), _text(value), _text(removed[name]) if name in removed else "")
        for name, value in plain["fields"].items()
    ]
    rows += [(place[:-1], place[-1], _text(value), "") for place, value in plain.get("others", {}).items()]
    title = f"{found.id}  {_class_name(found)}  {', '.join(found.names)}".rstrip()
    print_table(title, ("field", "type", "value", "removed"), rows)


def _class_name(found: ChotkiObject) -> str:
    return str(found.class_id) if found.class_ is None else found.class_.name


def _fields(plain: dict[str, Any]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in plain["fields"].items() if value is not None)


def _text(value: object) -> str:
    return json_text.dumps(value, ensure_ascii=False)
