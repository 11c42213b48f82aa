"""A JavaScript driver as a process: its packages installed once, by their lock file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs
import pytest

INSTALL_TIMEOUT_S: Final = 240
_PINS: Final = ("package.json", "package-lock.json")
_INSTALL: Final = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


@dataclass(frozen=True)
class NpmDriver:
    """The programs in a folder of the repository; `switch` is the variable that says `off`."""

    what: str
    """What it is a driver of, for reasons of skipped tests."""
    sources: Path
    programs: tuple[str, ...]
    switch: str

    def packages(self) -> Path:
        """The folder with the installed packages; installs them where they are missing: seconds, once."""
        cache = platformdirs.user_cache_path("culm") / self.sources.name
        target = cache / self._digest(_PINS)
        if target.exists():
            return target
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "packages"
            made.mkdir()
            for name in _PINS:
                shutil.copy2(self.sources / name, made)
            try:
                subprocess.run(
                    _INSTALL, cwd=made, timeout=INSTALL_TIMEOUT_S, check=True, capture_output=True, text=True
                )
            except subprocess.TimeoutExpired:
                pytest.skip(f"no {self.what}: npm took longer than {INSTALL_TIMEOUT_S} s")
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no {self.what}: npm cannot install it: {error.stderr.strip()[-300:]}")
            # Renamed into its place whole, so that nobody finds a part of it; another process may be first.
            with contextlib.suppress(OSError):
                made.rename(target)
        return target

    def program(self) -> Path:
        """The first program, beside its packages; skips the test, with the reason, where there is none."""
        if os.environ.get(self.switch) == "off":
            pytest.skip(f"{self.switch}=off")
        if not self.sources.exists():
            pytest.skip(f"no {self.what}: its driver, tests/{self.sources.name}, is in the repository alone")
        for name in ("node", "npm"):
            if shutil.which(name) is None:
                pytest.skip(f"no {self.what}: {name} is not installed")
        folder = self.packages() / self._digest(self.programs)
        folder.mkdir(exist_ok=True)
        for name in self.programs:
            if not (folder / name).exists():
                staged = folder / f"{name}.{os.getpid()}"
                shutil.copy2(self.sources / name, staged)
                staged.rename(folder / name)
        return folder / self.programs[0]

    def _digest(self, names: tuple[str, ...]) -> str:
        digest = hashlib.sha256()
        for name in names:
            digest.update((self.sources / name).read_bytes())
        return digest.hexdigest()[:12]
