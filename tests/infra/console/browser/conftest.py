"""Chromium and a console with generated data for tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.console_page.browser import chromium, page_of
from tests.support.console_page.server import GeneratedConsole, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Opened = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def console() -> Iterator[GeneratedConsole]:
    with served(GeneratedConsole()) as generated:
        yield generated


@pytest.fixture
def opened(browser: Browser, console: GeneratedConsole) -> Iterator[Opened]:
    """Open the console at a route; faults of the page are reported at the end of the test."""
    with ExitStack() as stack:

        def at(route: str = "", **options: Any) -> Page:
            page = stack.enter_context(page_of(browser, f"{console.address}/{route}", **options))
            page.set_default_timeout(30_000)
            return page

        yield at
