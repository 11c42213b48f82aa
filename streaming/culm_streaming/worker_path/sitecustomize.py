"""Lets a Python worker of Spark import PySpark compiled, from where it is installed; runs before all else.

Spark puts a zip of PySpark's sources in front of what is installed, and Python compiles what it imports from
there again in every process: five times the processor time of the compiled modules. Some workers have no more
than ten seconds to connect back, which they missed again and again on a busy machine. The zip that belongs to
the installed PySpark holds the same sources; any other stays.
"""

import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path


def _without_sources(path: list[str]) -> list[str]:
    """The path without the zips of an installed PySpark."""
    rest = [entry for entry in path if not entry.endswith(".zip")]
    pyspark, py4j = (PathFinder.find_spec(name, rest) for name in ("pyspark", "py4j"))
    if pyspark is None or pyspark.origin is None or py4j is None:
        return path
    sources = Path(pyspark.origin).parent / "python" / "lib"
    return [entry for entry in path if Path(entry).parent != sources]


if __name__ == "sitecustomize":  # and not one of the modules of this package
    sys.path[:] = [entry for entry in _without_sources(sys.path) if entry != str(Path(__file__).parent)]

    # One that stands behind this one in the path runs as well.
    _own = sys.modules.pop(__name__)
    with suppress(ModuleNotFoundError):
        import_module(__name__)
    sys.modules.setdefault(__name__, _own)
