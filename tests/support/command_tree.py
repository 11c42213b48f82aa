"""Every command of `culm`, with the words that lead to it and the options that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from typer.main import get_command

from culm_infra.cli.root import app


class Command(NamedTuple):
    """One command: `words` is how it is called, `parameters` are those of Typer."""

    words: tuple[str, ...]
    parameters: tuple[Any, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Its positional arguments."""
        return tuple(one for one in self.parameters if one.param_type_name == "argument")

    @property
    def options(self) -> frozenset[str]:
        """Every spelling of every option."""
        return frozenset(
            spelling
            for one in self.parameters
            if one.param_type_name == "option"
            for spelling in (*one.opts, *one.secondary_opts)
        ) | {"--help", "-h"}


@cache
def commands() -> tuple[Command, ...]:
    """All of them, in the order of the help."""
    return tuple(_walk(get_command(app), ()))


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[Command]:
    is_group = hasattr(command, "list_commands")
    if is_group:
        context = command.make_context(command.name, [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), (*words, name))
    if not is_group or command.invoke_without_command:
        yield Command(words, tuple(command.params))


def command_of(words: tuple[str, ...]) -> Command | None:
    """The command that a line begins with, the longest one; None if there is none."""
    fitting = [one for one in commands() if words[: len(one.words)] == one.words]
    return max(fitting, key=lambda one: len(one.words), default=None)


def is_group(words: tuple[str, ...]) -> bool:
    """Whether commands begin with these words."""
    return any(one.words[: len(words)] == words for one in commands())
