"""Data folder of a command: holds its key and its data, in the user's data directory unless ``--dir`` names
another folder.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from culm_infra.cli.kit.output import safe, say


def directory_option(variable: str | None = None) -> Any:
    """Return the option ``--dir`` of a command, which an environment variable may set, too."""
    return typer.Option(
        "--dir",
        metavar="DIR",
        envvar=variable,
        help="The folder of the key and the data; by default in the user's data directory.",
    )


DataDirectory = Annotated[Path | None, directory_option()]


def data_folder(name: str, chosen: Path | None) -> Path:
    """Return the chosen folder; by default the one of this name in the user's data directory."""
    from culm_infra.settings import DIRECTORIES

    return chosen or Path(DIRECTORIES.user_data_dir) / name


def folder_on_the_line(name: str, context: typer.Context) -> Path:
    """Return the folder that a command line names, for completion; by default that of this name."""
    chosen = context.params.get("folder")
    return data_folder(name, None if chosen is None else Path(chosen))


def with_folder(line: str, chosen: Path | None) -> str:
    """Return a command line for the chosen folder, to be pasted into a shell."""
    return line if chosen is None else f"{line} --dir {shlex.quote(str(chosen))}"


def make_data_folder(name: str, chosen: Path | None) -> Path:
    """Return the folder; a missing one is created for this user alone, and standard error says where.

    A command calls this if it may create a key or data, once it has checked its arguments.
    """
    folder = data_folder(name, chosen)
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        say(f"new folder for the key and the data: {safe(folder, 1_000)} (another one: --dir)")
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolderFlags:
    """The data folder of a noun. A subclass sets `NAME`, and may declare `folder` with a variable."""

    NAME: ClassVar[str]

    folder: DataDirectory = None

    @property
    def path(self) -> Path:
        """The folder, whether or not it exists."""
        return data_folder(self.NAME, self.folder)

    def made(self) -> Path:
        """Return the folder; a missing one is created, and standard error says where."""
        return make_data_folder(self.NAME, self.folder)

    def command(self, line: str) -> str:
        """Return a command line for this folder, to be pasted into a shell."""
        return with_folder(line, self.folder)
