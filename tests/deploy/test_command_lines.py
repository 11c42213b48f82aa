"""The check of command lines finds what `culm` does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.command_lines import assert_culm_accepts, assert_settings_are_known, culm_commands
from tests.deploy.tools import ROOT

PAGES = sorted((ROOT / "docs" / "deploy").glob("*.md"))


def test_a_command_line_of_culm_is_accepted() -> None:
    assert_culm_accepts(["/opt/culm/bin/culm", "connector", "run", "--listen", "0.0.0.0:4455"])


@pytest.mark.parametrize(
    "words", [["connector", "walk"], ["connector", "run", "--lisen", "0.0.0.0:4455"], ["conector", "run"]]
)
def test_an_unknown_command_or_option_is_refused(words: list[str]) -> None:
    with pytest.raises(AssertionError):
        assert_culm_accepts(["culm", *words])


def test_an_unknown_setting_is_refused() -> None:
    assert_settings_are_known({"CULM_CONNECTOR__LISTEN": "0.0.0.0:4455"})
    with pytest.raises(AssertionError):
        assert_settings_are_known({"CULM_CONNECTOR__LISEN": "0.0.0.0:4455"})


def test_command_lines_are_found_in_shell_text() -> None:
    text = """
# culm is not run here
culm topics create --bootstrap kafka:9092 && exec /opt/culm/bin/culm connector run \\
  --listen 0.0.0.0:4455  # a comment
CULM_CONFIG=x culm settings check > out
export CULM_STACK__DIRECTORY=/var/lib/culm
podman run --rm --volume culm-connector:/var/lib/culm culm-tools topics create
podman run --detach culm-connector
docker compose exec connector culm connector status
"""
    assert list(culm_commands(text)) == [
        ["culm", "topics", "create", "--bootstrap", "kafka:9092"],
        ["culm", "connector", "run", "--listen", "0.0.0.0:4455"],
        ["culm", "settings", "check"],
        ["culm", "topics", "create"],
        ["culm", "connector", "status"],
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_culm_accepts_what_a_page_runs(page: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    for command in culm_commands("\n".join(blocks)):
        assert_culm_accepts(command)
