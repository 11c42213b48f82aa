"""``culm version`` and ``culm help``."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Annotated

import typer

from culm_infra.cli.kit.output import Results, out

_SHOWN = ("pyspark", "confluent-kafka", "aioquic")
"""Distributions whose version explains most problems."""


def version(*, results: Results) -> None:
    """Print the versions of Culm, Python and the libraries that matter most; None is not installed.

    Example: `culm version --json`
    """
    found = versions()
    text = "\n".join(f"{name} {number or 'is not installed'}" for name, number in found.items())
    results.one(found, text)


def versions() -> dict[str, str | None]:
    """Return the versions of Culm, Python and the libraries that matter most; None is not installed."""
    own = {"culm": _version_of("culm"), "python": platform.python_version()}
    return own | {name: _version_of(name) for name in _SHOWN}


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def help_(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(help="A command, for example: logs tail.")] = None,
) -> None:
    """Print the help of a command.

    Example: `culm help logs tail`
    """
    root = context.find_root()
    shown, chosen = root, root.command
    for name in command or []:
        if not hasattr(chosen, "resolve_command"):
            raise typer.BadParameter(
                f"`{shown.command_path}` has no commands of its own", param_hint="COMMAND"
            )
        _, chosen, _ = chosen.resolve_command(shown, [name])
        shown = chosen.make_context(name, [], parent=shown, resilient_parsing=True)
        # Made without its arguments, but a misspelled command below it is still an error.
        shown.resilient_parsing = False
    out.print(shown.get_help(), markup=False, end="")
