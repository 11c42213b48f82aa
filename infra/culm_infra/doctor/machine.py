"""This machine: Python, the distributions, Java, the jars, ports and disk."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from culm_infra.doctor.finding import Finding, State
from culm_infra.stack import JavaNotFoundError, Stack, StackPortError, find_java, jars, ports

_FAILED_BELOW_BYTES = 1 << 30
_WARNED_BELOW_BYTES = 5 << 30


def check_python() -> Finding:
    """Check the version of the running Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("python", "ok", f"{version}, {sys.executable}")
    return Finding("python", "failed", version, "use Python 3.11, 3.12 or 3.13")


@dataclass(frozen=True, slots=True)
class Requirement:
    """Supported versions of a distribution: from ``at_least`` on, and below ``below``."""

    distribution: str
    at_least: tuple[int, ...]
    below: tuple[int, ...] | None
    extra: str
    why: str


_REQUIREMENTS = (
    Requirement(
        "pyspark",
        (4, 2, 0),
        (4, 2, 1),
        "streaming",
        "the jars of Spark's Kafka connector are for this version",
    ),
    Requirement(
        "protobuf",
        (6, 33, 5),
        None,
        "streaming",
        "with older versions stateful jobs crash without an error message",
    ),
    Requirement("pandas", (2, 2), (3,), "streaming", "this Spark does not fully support pandas 3"),
)


def check_distributions() -> Iterator[Finding]:
    """Check the versions of the distributions that the jobs need."""
    for requirement in _REQUIREMENTS:
        yield check_distribution(requirement)


def check_distribution(requirement: Requirement) -> Finding:
    """Check that the installed version of a distribution is supported."""
    try:
        version = importlib.metadata.version(requirement.distribution)
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            requirement.distribution,
            "skipped",
            "not installed; only the streaming jobs and the local stack need it",
            f"pip install 'culm[{requirement.extra}]'",
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    good = numbers >= requirement.at_least and (requirement.below is None or numbers < requirement.below)
    if good:
        return Finding(requirement.distribution, "ok", version)
    bounds = f">={_dotted(requirement.at_least)}" + (
        f",<{_dotted(requirement.below)}" if requirement.below is not None else ""
    )
    return Finding(
        requirement.distribution,
        "failed",
        f"{version}: {requirement.why}",
        f"pip install '{requirement.distribution}{bounds}'",
    )


def check_pyspark_python(timeout_s: float = 30.0) -> Finding:
    """Check that Spark's workers would run on the same Python version."""
    wanted = os.environ.get("PYSPARK_PYTHON")
    name = "pyspark_python"
    if not wanted:
        return Finding(name, "ok", "not set: the jobs give their workers the Python that runs them")
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [wanted, "-c", code], capture_output=True, text=True, check=True, timeout=timeout_s
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            name, "failed", f"{wanted} does not run: {error}", "unset PYSPARK_PYTHON, or name this Python"
        )
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if answer == own:
        return Finding(name, "ok", f"{wanted} ({answer})")
    return Finding(
        name,
        "failed",
        f"{wanted} is Python {answer}, this is {own}",
        f"unset it, or name {sys.executable}",
    )


def check_java() -> Finding:
    """Check the Java that runs the broker and Spark."""
    try:
        java = find_java()
    except JavaNotFoundError as error:
        return Finding("java", "failed", str(error), error.hint)
    return Finding("java", "ok", f"{java.version} from {java.origin}, {java.home}")


def check_jar_sets() -> Iterator[Finding]:
    """Check every set of jars."""
    for name in jars.JAR_SETS:
        yield check_jars(name)


def check_jars(name: jars.JarSet) -> Finding:
    """Check that a set of jars is in the cache, with the right checksums."""
    label = f"jars: {name}"
    states = jars.status(name)
    wrong = [coordinate.file_name for coordinate, state in states if state == "wrong sum"]
    missing = [coordinate for coordinate, state in states if state == "missing"]
    folder = jars.cache_directory()
    if wrong:
        return Finding(
            label,
            "failed",
            f"wrong SHA-256 in {folder}: {', '.join(wrong)}",
            "find out who changed them; then delete them and run `culm jars fetch`",
        )
    if missing:
        return Finding(
            label,
            "warning",
            f"{len(missing)} of {len(states)} are not in {folder}; they are fetched when first needed",
            "`culm jars fetch` fetches them now",
        )
    return Finding(label, "ok", f"{len(states)} in {folder}, sums checked")


def check_ports(stack: Stack) -> Finding:
    """Check that the local stack can listen on its ports."""
    if stack.status().running:
        return Finding("ports", "ok", f"the stack listens on {stack.bootstrap}")
    taken = [port for port in stack.remembered_ports() if not ports.is_free(port)]
    if taken:
        return Finding(
            "ports",
            "failed",
            f"the stack in {stack.directory} needs {', '.join(map(str, taken))}, held by another process",
            f"find it with `ss -ltnp sport = :{taken[0]}` and end it, or use another stack with --stack",
        )
    try:
        ports.free_ports(1)
    except StackPortError as error:
        return Finding("ports", "failed", str(error), error.hint)
    return Finding("ports", "ok", "free ports on 127.0.0.1")


def check_disk(directory: Path) -> Finding:
    """Check the free space for the local stack's data."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free_bytes = shutil.disk_usage(existing).free
    detail = f"{free_bytes / (1 << 30):.1f} GiB free at {existing}"
    if free_bytes >= _WARNED_BELOW_BYTES:
        return Finding("disk", "ok", detail)
    state: State = "failed" if free_bytes < _FAILED_BELOW_BYTES else "warning"
    return Finding("disk", state, detail, "free space, or choose another directory with --stack DIR")


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)
