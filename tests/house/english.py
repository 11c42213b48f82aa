"""Checks of the English in docstrings, names and documents, a part of `make lint`.

`python -m tests.house.english` prints each fault with its place, and exits with 1 if there are any. It
checks only rules that need no judgement; docs/glossary.md has the words. An exception needs a reason beside
it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from tests.house.tree import FLOORS, ROOT

MAX_COLUMNS: Final = 120
"""Width of prose in Markdown. Tables, code and lines without a space, such as addresses, may be wider."""

FIRST_WORDS: Final = frozenset(
    {
        *("What", "Whatever", "Who", "Whoever", "Whose", "Whom", "Where", "When", "How"),
        *("Of", "That", "Those", "See"),
    }
)
"""A docstring that starts with one of these has no verb of its own."""

PARAMETERS: Final = frozenset({"most", "found", "one", "some", "given", "told", "room"})
"""Names that do not say what an argument is."""

SHARED_CLASS_NAMES: Final = {
    "Peer": "Bamboo Point-2-Point and p2panda replication both call their machine a peer",
    "Session": "Chotki and p2panda replication both call an exchange with one remote a session",
}
"""Class names with two meanings, each with the reason."""

_WITHOUT_BACKTICKS = re.compile(r"\bRaises? (?:the )?(?:\w+\.)?[A-Z]\w*[a-z]\w*|:raises\b|\bThrows\b")


def docstring_faults(text: str) -> Iterator[str]:
    """Faults of one docstring."""
    words = re.match(r"\W*(\w+)", text)
    if words and words[1] in FIRST_WORDS:
        yield f"a docstring starts with a verb or a noun, not with {words[1]!r}"
    if match := _WITHOUT_BACKTICKS.search(text):
        yield f"write errors as Raises `Name`, not {match[0]!r}"


def source_faults(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each fault in the docstrings and parameters of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = getattr(node, "lineno", 1)
            for fault in docstring_faults(ast.get_docstring(node) or ""):
                yield line, fault
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            for argument in arguments:
                if argument.arg in PARAMETERS:
                    yield argument.lineno, f"the parameter {argument.arg!r} does not say what it is"


def class_faults(modules: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Public class names that several of these modules, (name, source) each, define at their top."""
    places = defaultdict(list)
    for name, source in modules:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    for name, owners in sorted(places.items()):
        if len(owners) > 1 and name not in SHARED_CLASS_NAMES:
            yield f"the class name {name} has several meanings: {', '.join(owners)}"
    for name in sorted(SHARED_CLASS_NAMES):
        if len(places[name]) < 2:
            yield f"the class name {name} has one meaning: remove it from SHARED_CLASS_NAMES"


def prose_faults(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each fault in the prose of a Markdown document."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
        is_table = line.lstrip().startswith("|")
        if len(line) > MAX_COLUMNS and not in_code and not is_table and " " in line.strip():
            yield number, f"{len(line)} columns of prose; wrap it at {MAX_COLUMNS}"


def faults() -> Iterator[str]:
    """All faults of the project, each with its place."""
    modules = []
    for package in FLOORS:
        for path in sorted((ROOT / package).rglob("*.py")):
            source, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
            modules.append((name, source))
            yield from (f"{name}:{line}: {fault}" for line, fault in source_faults(source))
    yield from class_faults(modules)
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        yield from (f"{path.relative_to(ROOT)}:{line}: {fault}" for line, fault in prose_faults(text))


if __name__ == "__main__":
    report = list(faults())
    print(*report, sep="\n" if report else "")
    sys.exit(1 if report else 0)
