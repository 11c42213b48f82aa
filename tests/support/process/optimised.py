"""Runs tests against the packages as `python -O` compiles them: `pytest -p tests.support.process.optimised`.

Under `-O` itself the tests' own assertions would vanish too. Here only modules of Culm are compiled without
theirs, past the bytecode on disk, which has them. Tests marked `assertions` are left out: they expect that an
assertion stops a programmer's mistake.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

import pytest

PACKAGES = ("culm_models", "culm_topics", "culm_streaming", "culm_connectors", "culm_infra")


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True, optimize=1)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


loaded = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
assert not loaded, f"imported before this plugin: {loaded}"
sys.meta_path.insert(0, _Finder())
with contextlib.suppress(ValueError):
    # An AssertionError instead says that the packages have their assertions in spite of the finder.
    importlib.import_module("culm_models.varu64").encode(-1)


def pytest_report_header() -> str:
    """Says what is tested."""
    return "the packages are compiled without assertions, as by python -O"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only assertions make true."""
    left_out = [item for item in items if item.get_closest_marker("assertions")]
    items[:] = [item for item in items if not item.get_closest_marker("assertions")]
    config.hook.pytest_deselected(items=left_out)
