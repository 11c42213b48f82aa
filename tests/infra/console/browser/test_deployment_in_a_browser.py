"""The console of a real deployment: a killed edge turns red, and green after its start; tables have rows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_topics.kafka.clients import producer
from tests.support.console_page.browser import DESKTOP, PHONE, chromium, page_of
from tests.support.console_page.screens import font_environment, screenshot
from tests.support.deployment.members import members, new_schema, publish_slowly, until_live, write_logs
from tests.support.deployment.world import World, running_world

pytestmark = [pytest.mark.deploy, pytest.mark.kafka, pytest.mark.spark]
EDGE = "section:has(h2:text-is('Edges')) tbody tr"
RED_WITHIN_MS = 10_000
PATIENCE_MS = 120_000


@contextlib.contextmanager
def console_of(world: World) -> Iterator[str]:
    """Start `culm console` on the status sockets of a deployment; yields its address with the token."""
    sockets = [edge.folder / "status.sock" for edge in world.edges]
    sockets += sorted((world.folder / "stack" / "run").glob("job-*.sock"))
    targets = [part for socket in sockets for part in ("--target", f"unix:{socket}")]
    arguments = ("console", "--listen", "127.0.0.1:0", "--json", *targets)
    process = CulmProcess("the console", arguments, environment(world.kafka), world.folder / "console.log")
    process.start()
    try:
        process.wait_for_log('"url"', 60)
        (line,) = (line for line in process.printed().splitlines() if '"url"' in line)
        yield str(json.loads(line)["url"])
    finally:
        process.stop()


def test_a_killed_edge_turns_red_and_green_again(tmp_path: Path, kafka_bootstrap: str) -> None:
    with running_world(tmp_path / "world", kafka_bootstrap, "culm.") as world, console_of(world) as url:
        asyncio.run(used(world, url, tmp_path))


async def used(world: World, url: str, folder: Path) -> None:
    """Look at the console in a thread while peers publish."""
    schema = new_schema("venues")
    writers = write_logs(4, schema, [30, 12, 50, 7, 90, 3])
    async with members(folder / "peers", schema, 4) as peers:
        for number, writer in enumerate(writers):
            await peers[number % 4].add(writer.entries)
        for number, peer in enumerate(peers):
            peer.dial(world.edges[number % 2])
        await until_live(world, schema, *peers)
        stranger = producer(world.kafka)
        stranger.produce(f"{world.kafka.prefix}entries", key=b"x", value=b"neither an entry nor a record")
        stranger.flush(30)
        publishing = [
            asyncio.create_task(publish_slowly(peer, writer, 100_000, 0.04))
            for peer, writer in zip(peers, writers, strict=False)
        ]
        try:
            await asyncio.to_thread(look, world, url, folder)
        finally:
            for task in publishing:
                task.cancel()
            await asyncio.wait(publishing)
        await asyncio.sleep(0)


def look(world: World, url: str, folder: Path) -> None:
    """Kill an edge, start it again, and read tables, in a browser."""
    with chromium(font_environment(folder)) as browser:
        with page_of(browser, url) as page:
            page.set_default_timeout(PATIENCE_MS)
            address = page.url.partition("#")[0]
            state = page.context.storage_state()
            all_is_ready(page)
            fill_sparklines(page, 30)
            screenshot(page, "light")
            killed_s = time.monotonic()
            world.west.kill()
            row = page.locator(EDGE).first
            expect(row.locator(".badge")).to_have_attribute("data-tone", "bad", timeout=RED_WITHIN_MS)
            print(f"red {time.monotonic() - killed_s:.1f} s after the kill")
            expect(row).to_contain_text("Down")
            expect(page.locator("h1")).to_contain_text("is down")
            screenshot(page, "failing")
            with page_of(browser, address, dark=True, storage_state=state) as dark:
                expect(dark.locator(EDGE).first).to_contain_text("Down")
                fill_sparklines(dark, 15)
                screenshot(dark, "dark")
            with page_of(browser, address, size=PHONE, storage_state=state, device_scale_factor=2) as phone:
                expect(phone.locator(EDGE).first).to_contain_text("Down")
                fill_sparklines(phone, 8)
                screenshot(phone, "phone")
            world.west.start()
            started_s = time.monotonic()
            all_is_ready(page)
            print(f"green {time.monotonic() - started_s:.1f} s after the start")
        with page_of(browser, f"{address}#/table/p2panda-logs", size=DESKTOP, storage_state=state) as page:
            page.set_default_timeout(PATIENCE_MS)
            tables(page, address)


def fill_sparklines(page: Page, points: int) -> None:
    """Wait for so many points in the lines of the tiles; the console sends one in two seconds."""
    line = page.locator(".tile .spark .line").first
    expect(line).to_have_attribute("d", re.compile(f"(L[^L]*){{{points}}}"), timeout=PATIENCE_MS)


def all_is_ready(page: Page) -> None:
    expect(page.locator(EDGE)).to_have_count(2, timeout=PATIENCE_MS)
    for number in range(2):
        badge = page.locator(EDGE).nth(number).locator(".badge")
        expect(badge).to_have_attribute("data-tone", "good", timeout=PATIENCE_MS)


def tables(page: Page, address: str) -> None:
    """Read logs, one log whole, and the newest refusal."""
    rows = page.locator("main tbody tr")
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)
    for _ in range(60):
        if "of 6" in (page.locator("main .place").text_content() or ""):
            break
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_timeout(1_000)
    assert rows.count() == 6
    rows.first.click()
    expect(page.locator("#panel .scan")).to_contain_text("The limit is")
    screenshot(page, "table")
    page.goto(f"{address}#/table/rejected")
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)
    rows.first.click()
    expect(page.locator("#panel .scan")).to_contain_text("The limit is")
    screenshot(page, "rejected")
