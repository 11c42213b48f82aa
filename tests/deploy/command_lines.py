"""Checks of the command lines that units, images, compose files and manifests contain.

Each one runs from this checkout's installation: with `--help`, which fails for an unknown command or option,
or as it is if it is `culm settings check`.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from culm_infra.settings.names import PREFIX

_CONTINUED = re.compile(r"\\\n\s*")
_ENDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "#"})
"""Words of a shell that end a command's own arguments."""


_CONTAINERS = frozenset({"culm-connector", "culm-jobs", "culm-tools", "topics"})
"""Images, and the service of the compose file that runs any command."""


def assert_culm_accepts(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Assert that `culm` has this command line: `culm ARGUMENTS`, with or without a directory before `culm`.

    `environment` holds the `CULM_…` variables that the rendered file sets; all of them must be settings.
    """
    assert PurePath(command[0]).name == "culm", f"not a command line of culm: {shlex.join(command)}"
    words = tuple(command[1:])
    if words[:2] != ("settings", "check"):
        words = (*words, "--help")
    done = culm(words, environment or {})
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def assert_settings_are_known(environment: Mapping[str, str]) -> None:
    """Assert that every `CULM_…` variable is a setting with an allowed value; files need not exist."""
    done = culm(("settings", "show"), environment)
    assert done.returncode == 0, f"{dict(environment)}\n{done.stderr}"


def culm(words: tuple[str, ...], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command line of this checkout's `culm`, once, with no `CULM_…` variables but these."""
    return _run(words, tuple(sorted(environment.items())))


def culm_commands(text: str) -> Iterator[list[str]]:
    """Return every command line of `culm` in a text of shell commands, one or more a line."""
    for line in _CONTINUED.sub(" ", text).splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        for start in _starts(words):
            end = next((index for index in range(start, len(words)) if words[index] in _ENDS), len(words))
            if end > start + 1 or PurePath(words[start]).name == "culm":
                yield ["culm", *words[start + 1 : end]]


def _starts(words: Sequence[str]) -> Iterator[int]:
    """Return where command lines of culm start: at its name, or at the container whose entry point it is."""
    if words[:1] in (["podman"], ["docker"]):
        names = _CONTAINERS if "run" in words else {"culm"} if "exec" in words else set()
        yield from [index for index, word in enumerate(words) if word in names][:1]
        return
    for index, word in enumerate(words):
        is_first = not index or words[index - 1] in _ENDS or _introduces(words[index - 1])
        if is_first and PurePath(word).name == "culm" and "=" not in word:
            yield index


def _introduces(word: str) -> bool:
    """Return whether a command may follow this word: an assignment, or a program that runs another one."""
    return (
        word in {"exec", "sudo", "env", "--", "$", "then", "do", "!"}
        or re.match(r"[A-Z_]+=", word) is not None
    )


@functools.cache
def _run(
    words: tuple[str, ...], environment: tuple[tuple[str, str], ...]
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return subprocess.run(
        [sys.executable, "-m", "culm_infra", *words],
        env=inherited | dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
