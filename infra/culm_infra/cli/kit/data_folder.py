"""Data folder of a command: holds its key and its data, in the user's data directory unless ``--dir`` names
another folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from culm_infra.cli.kit.output import safe, say


def directory_option(variable: str | None = None) -> Any:
    """Return the option ``--dir`` of a command, which an environment variable may set, too."""
    return typer.Option(
        "--dir",
        metavar="DIR",
        envvar=variable,
        help="Keeps the key and the data here; by default in the user's data directory.",
    )


DataDirectory = Annotated[Path | None, directory_option()]


def data_folder(name: str, chosen: Path | None) -> Path:
    """Return the chosen folder; by default the one of this name in the user's data directory."""
    from culm_infra.settings import DIRECTORIES

    return chosen or Path(DIRECTORIES.user_data_dir) / name


def make_data_folder(name: str, chosen: Path | None) -> Path:
    """Return the folder; a missing one is created for this user alone, and standard error says where.

    A command calls this if it may create a key or data, once it has checked its arguments.
    """
    folder = data_folder(name, chosen)
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        say(f"new folder for the key and the data: {safe(folder, 1_000)} (another one: --dir)")
    return folder
