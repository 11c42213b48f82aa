"""The documents of the settings are those that the tree generates, and every setting is in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from culm_infra.settings.example import example
from culm_infra.settings.names import PROGRAM_VARIABLES, TEST_VARIABLES, all_settings, by_path
from culm_infra.settings.reference import reference
from culm_infra.settings.schema import schema_text
from culm_infra.settings.tree import CulmSettings

ROOT: Final = Path(__file__).parents[3]
DOCS: Final = ROOT / "docs"
DOCUMENTS: Final = {
    "settings.md": reference,
    "culm.schema.json": schema_text,
    "culm.example.toml": example,
}

# Names with dots on the other pages are error codes, and values of the chart.
PAGES: Final = sorted({*DOCS.rglob("*.md")} - {DOCS / "error-codes.md", DOCS / "deploy" / "kubernetes.md"})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_document_is_the_generated_one(name: str) -> None:
    command = {"settings.md": "reference", "culm.schema.json": "schema", "culm.example.toml": "example"}[name]
    assert (DOCS / name).read_text() == DOCUMENTS[name](), f"run `culm settings {command} > docs/{name}`"


def test_every_setting_has_a_description_of_full_sentences() -> None:
    unclear = [
        setting.name
        for setting in all_settings()
        if not re.fullmatch(r"(?s)[A-Z].{14,}\.", setting.description)
        and not re.fullmatch(r"The job `.*`\.", setting.description)
    ]
    assert unclear == []


def test_every_number_has_a_unit() -> None:
    """`number` is the unit of what is counted; other units are those that the name ends with."""
    assert not [s.name for s in all_settings() if re.search(r"\bnumber\b", s.type_text) and not s.unit]
    counted = [s.name for s in all_settings() if s.unit == "number" and "bytes" in s.path[-1]]
    assert not counted, "a limit for each of several has the unit of the total"


def test_every_setting_that_is_absent_by_default_has_an_example() -> None:
    assert not [
        setting.name
        for setting in all_settings()
        if setting.table is None and setting.default is None and not setting.field.examples
    ]


def test_every_setting_is_in_the_reference() -> None:
    text = reference()
    for setting in all_settings():
        if setting.table is not None:
            assert f"[{setting.name}]" in text
        elif setting.variable:
            assert f"| `{setting.variable}` |" in text
    rows = len(re.findall(r"^\| `[a-z0-9_]+` \|", text, re.MULTILINE))
    assert rows == sum(setting.table is None for setting in all_settings())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_setting_that_a_page_names_exists(page: Path) -> None:
    known = {".".join(path[:end]) for path in by_path() for end in range(1, len(path) + 1)}
    tables = "|".join(sorted({*(path[0] for path in by_path() if len(path) > 1), "kafka"}))
    named = re.findall(rf"`((?:{tables})(?:\.[a-z0-9_]+)+)`", page.read_text())
    assert not {name for name in named if not name.endswith(".py")} - known


def uncommented(text: str, mark: str) -> str:
    return re.sub(rf"^{mark}(?=[\w\[])", "", text, flags=re.MULTILINE)


def test_the_example_is_the_defaults() -> None:
    defaults = CulmSettings()
    assert CulmSettings.model_validate(tomllib.loads(example())) == defaults
    with_defaults = uncommented(example(), "#")
    assert CulmSettings.model_validate(tomllib.loads(with_defaults)) == defaults


def test_every_example_in_the_example_is_a_valid_value() -> None:
    everything = tomllib.loads(uncommented(uncommented(example(), "#"), "#   "))
    settings = CulmSettings.model_validate(everything)
    assert settings.connector.dag.http is not None and settings.connector.dag.http.tokens
    for setting in all_settings():
        table = everything
        for name in setting.path[:-1]:
            table = table[name][0] if isinstance(table[name], list) else table[name]
        assert setting.path[-1] in table, setting.name


def test_the_variables_of_programs_are_those_that_they_read() -> None:
    packages = [
        path
        for floor in ("models", "topics", "streaming", "connectors", "infra")
        for path in (ROOT / floor).rglob("*.py")
    ]
    read = re.compile(r"""(?:environ(?:\.get\(|\[)|envvar=|directory_option\()\s*["'](CULM_[A-Z_]+)["']""")
    names = {name for path in packages for name in read.findall(path.read_text())}
    settings = {setting.variable for setting in all_settings()}
    assert names - settings == set(PROGRAM_VARIABLES)


def test_the_variables_of_tests_are_those_that_they_read() -> None:
    quoted = re.compile(r"""["'](CULM_[A-Z0-9_]+)["']""")
    texts = [path.read_text() for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    names = {name for text in texts for name in quoted.findall(text)}
    assert names >= TEST_VARIABLES


def test_the_schema_accepts_the_example_and_refuses_wrong_settings(tmp_path: Path) -> None:
    taplo = shutil.which("taplo", path=str(Path(sys.executable).parent))
    if taplo is None:
        pytest.skip("taplo is not installed")
    json.loads(schema_text())

    def check(text: str) -> int:
        file = tmp_path / "culm.toml"
        file.write_text(text)
        arguments = [taplo, "check", "--schema", (DOCS / "culm.schema.json").as_uri(), str(file)]
        return subprocess.run(arguments, check=False, capture_output=True, timeout=60).returncode

    assert check(example()) == 0
    assert check(uncommented(uncommented(example(), "#"), "#   ")) == 0
    assert check("[job]\nshard = 3\n") != 0
    assert check("[job]\nshards = 0\n") != 0
    assert check("[connector]\nlisten = 4455\n") != 0
