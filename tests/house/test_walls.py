"""The walls of the house (docs/architecture.md): no circles, maps in rooms, shared rooms without protocols.

The floors, and that protocols and jobs do not know each other, are contracts of import-linter (`make lint`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.tree import FLOORS, ROOT

PROTOCOLS = ("bamboo_p2p", "chotki", "dag", "p2panda", "sds")
COMMANDS_OF_PROTOCOLS = ("culm_infra.cli.bamboo", "culm_infra.demo.bamboo")
"""Packages named by a command's noun. Elsewhere `bamboo` names the entries that two protocols share."""
MOST_MODULES = 15
CROWDED: dict[str, int] = {}
"""Rooms that hold more, and how many."""
NAME_PROTOCOLS = frozenset(
    {
        # Literal tables: a new protocol is one line in each.
        "culm_models.conform.dispatch",
        "culm_topics.catalogue.registry",
        "culm_connectors.protocols",
        "culm_infra.protocols",
        # Of entries whose payloads are operations people see the fields, and the job checks them.
        "culm_infra.cli.logs.output",
        "culm_infra.cli.logs.status",
        "culm_infra.cli.logs.index",
        "culm_streaming.logs.validation",
        "culm_streaming.logs.packing",
    }
)
"""Shared files that name a protocol, and why they may."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the five packages by its dotted name; a package stands for its `__init__`."""
    paths = {}
    for floor in FLOORS:
        for path in (ROOT / floor / f"culm_{floor}").rglob("*.py"):
            name = ".".join(path.relative_to(ROOT / floor).with_suffix("").parts)
            paths[name.removesuffix(".__init__")] = path
    return paths


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


@cache
def imports(name: str) -> frozenset[str]:
    """Modules of ours that one imports, late imports and those for types alone counted."""
    imported = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                imported.add(inner if inner in modules() else node.module)
    # A room's own `__init__` takes names out of its modules: that is what it is for.
    return frozenset(
        module for module in imported if module in modules() and not name.startswith(f"{module}.")
    )


def circles() -> Iterator[list[str]]:
    """Strongly connected modules (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for root in modules():
        if root in index:
            continue
        work = [(root, iter(sorted(imports(root))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            name, following = work[-1]
            for imported in following:
                if imported not in index:
                    index[imported] = low[imported] = len(index)
                    stack.append(imported)
                    work.append((imported, iter(sorted(imports(imported)))))
                    break
                if imported in stack:
                    low[name] = min(low[name], index[imported])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    circle = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    if len(circle) > 1:
                        yield circle


def rooms() -> list[str]:
    return [name for name, path in modules().items() if path.name == "__init__.py"]


def inside(package: str) -> list[str]:
    """The modules and packages that stand directly in a package."""
    split_names = [name.rpartition(".") for name in modules()]
    return [name for parent, _, name in split_names if parent == package and not name.startswith("__")]


def test_no_file_imports_in_a_circle() -> None:
    assert list(circles()) == []


@pytest.mark.parametrize("package", rooms())
def test_a_room_has_a_map(package: str) -> None:
    text = ast.get_docstring(tree(package)) or ""
    missing = [name for name in inside(package) if not re.search(rf"\b{name}\b", text)]
    assert missing == [], (
        f"the docstring of {modules()[package].relative_to(ROOT)} does not say what these are"
    )


@pytest.mark.parametrize("package", rooms())
def test_a_room_is_not_crowded(package: str) -> None:
    files = [name for name in inside(package) if (ROOT / modules()[package].parent / f"{name}.py").exists()]
    assert len(files) <= CROWDED.get(package, MOST_MODULES), (
        f"{package}: divide it by what its files are about"
    )


def is_of_a_protocol(name: str) -> bool:
    """Whether a module stands in a protocol's room, or is a job of its own that begins with its name."""
    if f"{name}.".startswith(tuple(f"{package}." for package in COMMANDS_OF_PROTOCOLS)):
        return True
    parts = name.split(".")[1:]
    return any(f"{part}_".startswith(f"{protocol}_") for part in parts for protocol in PROTOCOLS)


@pytest.mark.parametrize("name", [module for module in modules() if not is_of_a_protocol(module)])
def test_a_shared_file_imports_no_protocol(name: str) -> None:
    known = sorted(filter(is_of_a_protocol, imports(name)))
    if name in NAME_PROTOCOLS:
        assert known, "it knows none any more: take it out of the list"
    else:
        assert known == []
