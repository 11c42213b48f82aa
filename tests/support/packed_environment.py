"""An environment of Culm packed for the workers of a Spark cluster, as docs/operating.md says."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_NOT_FOR_WORKERS = (
    "pyspark",
    "pip",
    "mypy",
    "matplotlib",
    "boto",
    "moto",
    "hypothesis",
    "setuptools",
    "ruff",
)
_OURS = ("models/culm_models", "topics/culm_topics", "streaming/culm_streaming")


def pack_environment(archive: Path) -> None:
    """What `python -m venv env`, `pip install culm[streaming]` in it and `tar -czf … *` make, from ours."""
    environment = archive.parent / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    inside = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    # Compressed as there: Spark unpacks what ends in .tar in another way, without symbolic links and modes.
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for entry in environment.iterdir():
            packed.add(entry, entry.name)
        for entry in sorted((Path(sys.prefix) / inside).iterdir()):
            if not entry.name.startswith((*_NOT_FOR_WORKERS, "_editable_impl_culm")):
                packed.add(entry, f"{inside}/{entry.name}")
        for package in _OURS:
            packed.add(_ROOT / package, f"{inside}/{Path(package).name}")
