"""Tests of what is deployed: the files in `infra/deploy` and the pages in `docs/deploy`.

Tests with the marker `deploy` need programs of others and run with `make test-deploy`; the others are quick
and run with `make test`, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.tools import ROOT


@pytest.fixture(scope="session")
def deployables() -> Path:
    """The folder of the deployables."""
    return ROOT / "infra" / "deploy"
