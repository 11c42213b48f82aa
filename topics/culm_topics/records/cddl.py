"""Writes the CDDL of a topic's values from the declarations of its records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pkgutil import resolve_name
from typing import Final

from culm_topics.records.declare import Item, Record, items_of
from culm_topics.records.kinds import ItemKind
from culm_topics.records.shape import FORMAT
from culm_topics.topic_spec import TopicSpec

_WIDTH: Final = 110
_NOTE_COLUMN: Final = 33


def records_of(topic: TopicSpec) -> list[type[Record]]:
    """Return the record classes of a topic."""
    return [resolve_name(name) for name in topic.records]


def topic_cddl(records: Sequence[type[Record]]) -> str:
    """Return the CDDL of a topic's values; with several kinds of values, the key tells which one it is."""
    declared = [record.declaration for record in records]
    topic = declared[0].topic
    lines: list[str] = []
    if len(records) == 1:
        lines += _comment(f"`{topic}`: {declared[0].about}")
        lines += _rule(records[0])
    else:
        lines += _comment(f"`{topic}`: the key determines the kind of the value.")
        name = f"{topic.replace('.', '-')}-value"
        lines.append(f"{name} = {' / '.join(declaration.rule for declaration in declared)}")
        for record in records:
            lines += ["", *_comment(record.declaration.about), *_rule(record)]
        lines.append("")
    rules: dict[str, ItemKind] = {}
    for record in records:
        for item in items_of(record):
            rules |= item.kind.rules
    for name, kind in rules.items():
        lines += [*_comment(kind.note), *_wrapped(f"{name} = {kind.cddl}")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _rule(record: type[Record]) -> Iterator[str]:
    yield f"{record.declaration.rule} = ["
    yield f"  format: {FORMAT},"
    items = items_of(record)
    if items[-1].kind.may_end:
        yield from (_member(item) for item in items[:-1])
        yield "] / ["
        yield f"  format: {FORMAT},"
    yield from (_member(item) for item in items)
    yield "]"


def _member(item: Item) -> str:
    member = f"  {item.name}: {item.kind.term},"
    return f"{member.ljust(_NOTE_COLUMN - 1)} ; {item.note}" if item.note else member


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="; ", subsequent_indent="; ")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
