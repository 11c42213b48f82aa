"""One deployment for the end-to-end tests: every test has its own schema in it, and leaves it whole."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.deployment.world import WORLDS, World, running_world

_FOLDER = Path(__file__).parent


# Until the session's end it would ask Kafka for news beside every other test.
@pytest.fixture(scope="package")
def _deployment(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("world"), kafka_bootstrap, "e2e.") as world:
        yield world


@pytest.fixture
def world(_deployment: World) -> World:
    """The deployment, whole: what the test before killed, or what failed in it, is started again."""
    _deployment.repair()
    asyncio.run(_deployment.until_serving())
    return _deployment


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the deployment come last: those with processes of their own need not run beside it.

    While it waits it asks Kafka for news, which took them a third of a core.
    """
    items.sort(
        key=lambda item: (
            item.path.is_relative_to(_FOLDER) and not {"world", "mortal"}.isdisjoint(_fixtures(item))
        )
    )


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the processes said."""
    report = yield
    if report.failed:
        for world in WORLDS:
            report.sections += list(world.last_words().items())
    return report
