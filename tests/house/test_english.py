"""The checks of English find what they look for, and nothing else."""

from __future__ import annotations

import pytest

from tests.house import english


@pytest.mark.parametrize(
    ("docstring", "count"),
    [
        ("Return the entries of a log.", 0),
        ("Queue of entries. Raises `QueueFull` if it is full.", 0),
        ("What the queue holds.", 1),
        ("See `Queue.put`.", 1),
        ("Return it. Raises QueueFull.", 1),
        ("Return it. Raises typer.BadParameter.", 1),
        ("", 0),
    ],
)
def test_a_docstring_starts_with_a_verb_or_a_noun_and_marks_errors(docstring: str, count: int) -> None:
    assert len(list(english.docstring_faults(docstring))) == count


def test_a_parameter_says_what_it_is() -> None:
    source = "def take(most, *, found): ...\nkey = lambda one: one\nasync def put(entry): ...\n"
    assert [line for line, _ in english.source_faults(source)] == [1, 1, 2]


def test_a_class_name_has_one_meaning() -> None:
    modules = [("a", "class Entry: ...\nclass _Row: ...\n"), ("b", "class Entry: ...\nclass _Row: ...\n")]
    text = "the class name Entry has several meanings: a, b"
    assert text in list(english.class_faults(modules))
    assert text not in list(english.class_faults(modules[:1]))


def test_prose_is_wrapped_but_for_tables_code_and_addresses() -> None:
    wide = "word " * 30
    text = f"{wide}\n| {wide} |\n```\n{wide}\n```\n{'x' * 200}\n"
    assert [line for line, _ in english.prose_faults(text)] == [1]
