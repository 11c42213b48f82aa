"""Renders docs/error-codes.md: every stable code, with its meaning and what to do."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from culm_models.errors import CulmError
from docs.reference.advice import ADVICE, SECTIONS
from docs.reference.markdown import cell, paragraph, table

PACKAGES: Final = ("culm_models", "culm_topics", "culm_streaming", "culm_connectors", "culm_infra")
_PROGRAMS: Final = ("__main__", "culm_streaming.daemon")

_INTRODUCTION: Final = """\
# Error codes

This page lists every stable code. `python -m docs.reference` renders it from the classes of errors; do not
edit it. A code is the same on the topic `rejected`, in metrics, in `--json`, in log lines and in
`culm conform`, and it never changes its meaning. The message beside it is for people and may change; errors
of the command line also print a hint with what to do.
"""


def render() -> str:
    """Return the page."""
    known = meanings()
    sections: dict[str, list[str]] = defaultdict(list)
    for code in sorted(known):
        first = code.split(".")[0]
        sections[first if first in SECTIONS else "other"].append(code)
    parts = [_INTRODUCTION]
    for section, (title, text) in SECTIONS.items():
        if codes := sections[section]:
            rows = ((f"`{code}`", cell(known[code]), cell(ADVICE.get(code, ""))) for code in codes)
            parts += [f"## {title}\n", paragraph(text) + "\n"]
            parts.append(table(("code", "meaning", "what to do"), rows))
    return "\n".join(parts)


def meanings() -> dict[str, str]:
    """Return the meaning of each code: the first sentences of the classes that have it."""
    texts: dict[str, list[str]] = defaultdict(list)
    for kind in sorted(_classes(), key=lambda kind: (len(kind.__mro__), kind.__module__, kind.__name__)):
        text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
        if text not in texts[str(kind.code)]:
            texts[str(kind.code)].append(text)
    return {code: re.sub(r"\s+", " ", " ".join(lines)) for code, lines in texts.items()}


def _classes() -> list[type[CulmError]]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith(_PROGRAMS):
                importlib.import_module(module.name)
    ours = {kind for kind in _below(CulmError) if kind.__module__.startswith(PACKAGES)}
    return [kind for kind in ours if "code" in vars(kind)]


def _below(kind: type[CulmError]) -> Iterator[type[CulmError]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)
