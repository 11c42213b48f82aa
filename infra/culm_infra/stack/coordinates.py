"""The table of exact coordinates: the jars of each set, with their SHA-256 checksums."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Literal, get_args

JarSet = Literal["broker", "spark", "s3", "gcs", "azure"]
JAR_SETS: tuple[JarSet, ...] = ("broker", "spark")
"""Sets that every deployment needs."""
FILE_SYSTEMS: dict[str, JarSet] = {"s3a": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
"""Set that Spark needs beside its own for checkpoints in an object store, by the scheme of their URL."""

_PART = re.compile(r"[A-Za-z0-9._-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One jar: ``organisation:module:revision``, and the lower-case hex SHA-256 of its bytes."""

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of the jar in the cache; different for different versions of one module."""
        return f"{self.module}-{self.revision}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.module}:{self.revision}"


@functools.cache
def table() -> dict[JarSet, tuple[Coordinate, ...]]:
    """Return every set with its jars, in class path order."""
    text = resources.files(__package__).joinpath("coordinates.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    return {
        name: tuple(_coordinate(key, sha256) for key, sha256 in rows[name].items())
        for name in get_args(JarSet)
    }


def jar_set(name: JarSet) -> tuple[Coordinate, ...]:
    """Return the jars of one set, in class path order."""
    return table()[name]


def _coordinate(key: str, sha256: str) -> Coordinate:
    organisation, module, revision = key.split(":")
    # These parts are used in file names and XML, so the table itself is restricted to plain characters.
    assert all(_PART.fullmatch(part) for part in (organisation, module, revision)), key
    assert _SHA256.fullmatch(sha256), key
    return Coordinate(organisation, module, revision, sha256)
