"""Chromium for tests of the page. Whatever goes wrong in a page, such as a refused style, fails its test."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS: Final = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-sandbox"),
)
DESKTOP: Final = (1440, 900)
PHONE: Final = (360, 740)
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium(environment: dict[str, str | float | bool] | None = None) -> Iterator[Browser]:
    """Start this machine's Chromium with a new profile; skips the test if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra “deploy”")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as started:
        # The launcher has a profile in a new directory, which it removes.
        browser = started.chromium.launch(
            executable_path=program, args=list(ARGUMENTS), headless=True, env=environment
        )
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def page_of(
    browser: Browser,
    address: str,
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
    expected: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[Page]:
    """Open the console. Errors in the page fail the test, except those that contain an expected text."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        permissions=["clipboard-read", "clipboard-write"],
        **options,
    )
    faults: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if line.type in ("error", "warning") else None)
    page.goto(address)
    try:
        yield page
    finally:
        context.close()
    unexpected = [fault for fault in faults if not any(text in fault for text in expected)]
    assert not unexpected, unexpected
