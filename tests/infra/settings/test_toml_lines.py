"""Lines of the keys of a TOML document."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from culm_infra.settings.toml_lines import KeyPath, key_lines
from culm_infra.settings.values import as_toml

DOCUMENT = '''\
# a comment = 1
top = "a # no comment" # a comment
dotted.inner.key = [
  1, # one
  "two]",
  { three = 3, "fo.ur" = 4 },
]
[table."quoted.name"]
text = """
not_a_key = 1
[not.a.table]
"""
literal = \'\'\'
also = "none"\'\'\'
date = 1979-05-27T07:32:00Z
[[array]]
a = 1
[array.inner]
b = 2
[[array]]
a = 3
[[array.deeper]]
c = 4
[[array.deeper]]
c = 5
'''


def test_each_key_has_its_line() -> None:
    lines = key_lines(DOCUMENT)
    assert {path: lines[path] for path in paths(tomllib.loads(DOCUMENT))} == lines
    expected: dict[KeyPath, int] = {
        ("top",): 2,
        ("dotted", "inner", "key"): 3,
        ("dotted", "inner", "key", 1): 5,
        ("dotted", "inner", "key", 2, "fo.ur"): 6,
        ("table", "quoted.name", "text"): 9,
        ("table", "quoted.name", "date"): 15,
        ("array", 0): 16,
        ("array", 0, "inner", "b"): 19,
        ("array", 1, "a"): 21,
        ("array", 1, "deeper", 1, "c"): 25,
    }
    assert {path: lines[path] for path in expected} == expected


def test_lines_that_end_as_on_windows_are_counted_once() -> None:
    assert key_lines("a = 1\r\nb = 2\r\n") == {("a",): 1, ("b",): 2}


def paths(value: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every key and every element of a list, tables and lists included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*above, name)
        yield from paths(each, (*above, name))


NAMES = st.from_regex(r"[a-z_-]+", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "P", "Zs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_every_document_has_a_line_for_every_key(table: dict[str, Any]) -> None:
    text = "".join(f"{name} = {as_toml(value)}\n" for name, value in table.items())
    assert tomllib.loads(text) == table
    lines = key_lines(text)
    assert set(lines) == set(paths(table))
    assert all(lines[(name,)] == number for number, name in enumerate(table, start=1))


def test_the_example_file_has_a_line_for_every_key() -> None:
    text = (Path(__file__).parents[3] / "docs" / "culm.example.toml").read_text()
    assert set(key_lines(text)) == set(paths(tomllib.loads(text)))
