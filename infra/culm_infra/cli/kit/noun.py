"""Groups of commands as tables: a command is loaded when it is used.

A command may take dataclasses of options. An option that takes one value and is given twice is refused.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


def load(target: str) -> Any:
    """Return the attribute that a table entry names: `module:attribute` below `culm_infra.cli`."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(f"culm_infra.cli.{module}"), attribute)


def noun(help: str, commands: Mapping[str, Any], **settings: Any) -> typer.Typer:
    """Return a group of commands in the order of its help: functions, groups, or places to load them from.

    A place is imported when it is used, so that `culm --help` and completion stay quick.
    """
    made = functools.cache(lambda name: _command(commands[name], name))

    class Group(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return made(cmd_name) if cmd_name in commands else None

        def get_params(self, ctx: Any) -> Any:
            return _in_plain_forms(super().get_params(ctx))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, path = args[0], ctx.command_path
            if name not in commands and not name.startswith("-") and not ctx.resilient_parsing:
                near = [f"`{path} {match}`" for match in get_close_matches(name, commands, cutoff=0.6)]
                advice = f"Did you mean {' or '.join(near)}?" if near else f"Commands: {', '.join(commands)}."
                ctx.fail(f"There is no command `{path} {name[:80]}`. {advice}")
            return super().resolve_command(ctx, args)

    return typer.Typer(cls=Group, help=help, **({"no_args_is_help": True} | settings))


def _command(target: Any, name: str) -> Any:
    target = load(target) if isinstance(target, str) else target
    if isinstance(target, typer.Typer):
        command: Any = get_group(target)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name=name)(spread(target))
        command = get_command(single)
    command.name = name
    command.help = _unwrapped(command.help)
    _refuse_repeats(command)
    if not isinstance(target, typer.Typer):
        parameters_of = command.get_params
        command.get_params = lambda context: _in_plain_forms(parameters_of(context))
    return command


def _unwrapped(help: str | None) -> str | None:
    """Join the lines of each paragraph: a terminal has another width than the source. Items of lists stay."""
    if help is None:
        return None
    return re.sub(r"(?<!\n)\n(?![\n\s-])", " ", inspect.cleandoc(help))


def _in_plain_forms(parameters: list[Any]) -> list[Any]:
    """Show parameters in the usual forms: ``FILE``, ``[FILE]``, ``FILE...``, and no type behind a flag."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            _name_argument(parameter)
        elif parameter.is_flag:
            parameter.display_type_rich = lambda ctx: None
        elif parameter.metavar is None:
            shown = parameter.display_type(None)
            parameter.metavar = _plain_type(shown)
    return parameters


def _name_argument(parameter: Any) -> None:
    parameter.metavar = _bare(parameter.metavar or parameter.name.upper())
    repeated = f"{parameter.metavar}..." if parameter.nargs != 1 else parameter.metavar
    usage = repeated if parameter.required else f"[{repeated}]"
    parameter.get_usage_pieces = lambda _context: [usage]
    parameter.display_type_rich = lambda ctx: None


def _bare(metavar: str) -> str:
    """Return the name of an argument without the marks of an optional or a repeated one."""
    name = metavar.removesuffix("…").removesuffix("...")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name if name == metavar else _bare(name)


_TYPES: Final = {
    "str": "TEXT",
    "int": "N",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "DIR",
}


def _plain_type(shown: str) -> str:
    inner = shown.strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
    return _TYPES.get(inner, inner)


def _refuse_repeats(command: Any) -> None:
    """Refuse an option that takes one value and is given twice; otherwise the last value would win
    silently.
    """
    parse = command.parse_args

    def parse_args(context: Any, arguments: list[str]) -> Any:
        if arguments and not context.resilient_parsing:
            _, _, order = command.make_parser(context).parse_args(args=list(arguments))
            seen: set[str] = set()
            for parameter in order:
                is_single = parameter.param_type_name == "option" and not parameter.multiple
                if is_single and (not parameter.is_flag or parameter.secondary_opts):
                    if parameter.name in seen:
                        raise typer.BadParameter(
                            "given twice, and takes one value", param_hint=parameter.opts[0]
                        )
                    seen.add(parameter.name)
        return parse(context, arguments)

    command.parse_args = parse_args


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: Typer sees their fields, the command gets the dataclass.

    Every field is an option and therefore has a default.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    group_types: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint) and isinstance(hint, type):
            group_types[parameter.name] = hint
            parameters += _options_of(hint)
        else:
            parameters.append(parameter.replace(annotation=hint))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group_type in group_types.items():
            values[name] = group_type(**{field.name: values.pop(field.name) for field in fields(group_type)})
        command(**values)

    positional = [each for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    named = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    run.__signature__ = inspect.Signature([*positional, *named])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _options_of(group_type: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group_type, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group_type)
    ]
