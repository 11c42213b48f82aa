"""Renders docs/commands.md: every command of `culm`, with its arguments and options, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from docs.reference.markdown import cell, paragraph, table

_INTRODUCTION: Final = """\
# Commands

This page lists every command of `culm`. `python -m docs.reference` renders it from the code; do not edit it.
`culm COMMAND --help` prints the same text.
"""

_EXIT_STATUSES: Final = """\
## Exit statuses

| status | meaning |
|---|---|
| 0 | done |
| 1 | failed: the error and its remedy are on standard error |
| 2 | wrong usage, or a wrong setting |
| 3 | done, but not converged or degraded: data is missing, or a check found a difference |
| 75 | try again later: something that the command needs is not available yet |
| 130 | interrupted by Ctrl-C |
"""

_VALUES: Final = {"<int range>": "N", "<float range>": "NUMBER", "<str>": "TEXT", "<path>": "PATH"}
"""Usual forms of values where the command states none."""

_HIDDEN: Final = frozenset({"help", "install_completion", "show_completion"})


def render() -> str:
    """Return the page."""
    from typer.main import get_command

    from culm_infra.cli.root import app

    root: Any = get_command(app)
    parts = [_INTRODUCTION, _EXIT_STATUSES]
    for path, command in _commands(root, ("culm",)):
        parts.append("\n".join(_section(path, command)))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if hasattr(command, "list_commands"):
        context = command.context_class(command, info_name=path[-1])
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _commands(below, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> Iterator[str]:
    yield f"{'##' if len(path) <= 2 else '###'} {' '.join(path)}\n"
    context = command.context_class(command, info_name=" ".join(path))
    for text in inspect.cleandoc(command.help or "").replace("\b", "").split("\f")[0].split("\n\n"):
        yield paragraph(text) + "\n"
    is_group = hasattr(command, "list_commands")
    if not is_group:
        usage = " ".join((*path, *command.collect_usage_pieces(context)))
        yield f"```\n{usage}\n```\n"
    arguments: list[tuple[str, str, str]] = []
    options: list[tuple[str, str, str]] = []
    for parameter in command.params:
        if parameter.name in _HIDDEN or getattr(parameter, "hidden", False):
            continue
        row = _row(parameter, context)
        (arguments if parameter.param_type_name == "argument" else options).append(row)
    if any(row[1] for row in arguments):
        yield table(("argument", "meaning", "default"), ((name, text, end) for name, text, end in arguments))
    if options:
        yield table(("option", "meaning", "default"), options)
    if command.epilog:
        yield paragraph(command.epilog) + "\n"


def _row(parameter: Any, context: Any) -> tuple[str, str, str]:
    text = cell(parameter.help or "")
    variable = getattr(parameter, "envvar", None)
    if variable:
        text += f" (environment: `{variable}`)"
    record = parameter.get_help_record(context) or (parameter.name, "")
    name = " ".join(record[0].replace("*", "").split())
    for raw, usual in _VALUES.items():
        name = name.replace(raw, usual)
    return cell(f"`{name}`"), text, _default(parameter)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(shown := getattr(parameter, "show_default", None), str):
        return cell(shown)
    default = parameter.default
    if callable(default) or default in (None, False, "", [], ()) or "UNSET" in repr(default).upper():
        return ""
    if isinstance(default, list | tuple):
        return cell(", ".join(f"`{item}`" for item in default))
    value = getattr(default, "value", default)
    return cell("on" if value is True else f"`{value}`")
