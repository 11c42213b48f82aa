"""Tables: generic columns, search, pages, sorting only when it is honest, and rows whole."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.infra.console.browser.conftest import Opened
from tests.support.console_page.documents import hexadecimal
from tests.support.console_page.server import GeneratedConsole
from tests.support.console_page.tables import GeneratedTable

pytestmark = pytest.mark.deploy
HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"


def rows(page: Page) -> list[str]:
    return page.locator("main tbody tr td:first-child code, main tbody tr td:first-child").all_inner_texts()


def test_every_table_is_in_the_navigation_and_shows_its_rows(
    console: GeneratedConsole, opened: Opened
) -> None:
    page = opened()
    for name, table in console.tables.items():
        page.locator(f"#nav a[data-name='{name}']").click()
        expect(page.locator("h1")).to_have_text(table.spec()["title"])
        expect(page.locator("main tbody tr")).to_have_count(50)
        expect(page.locator("#nav a[aria-current='page']")).to_have_text(table.spec()["title"])


def test_a_million_rows_are_read_in_pages(console: GeneratedConsole, opened: Opened) -> None:
    console.tables["p2panda-logs"].rows = 1_000_000
    page = opened("#/table/p2panda-logs")
    expect(page.locator(".place")).to_have_text("1–50 of 1,000,000")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".place")).to_have_text("51–100 of 1,000,000")
    page.locator("main tbody tr").first.focus()
    page.keyboard.press("]")
    expect(page.locator(".place")).to_have_text("101–150 of 1,000,000")
    page.keyboard.press("[")
    expect(page.locator(".place")).to_have_text("51–100 of 1,000,000")
    expect(page.get_by_role("columnheader").first.get_by_role("button")).to_be_disabled()


def test_rows_are_sorted_if_all_of_them_are_here(console: GeneratedConsole, opened: Opened) -> None:
    console.tables["bamboo-logs"].rows = 12
    page = opened("#/table/bamboo-logs")
    head = page.get_by_role("columnheader", name="Height")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    heights = [
        int(text.replace(",", "")) for text in page.locator("main tbody td:nth-child(3)").all_inner_texts()
    ]
    assert heights == sorted(heights, reverse=True)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")


def test_a_search_is_kept_in_the_address(opened: Opened) -> None:
    page = opened("#/table/p2panda-logs")
    expect(page.locator("main tbody tr")).to_have_count(50)
    page.keyboard.press("/")
    page.keyboard.type("log 77")
    expect(page.locator("main tbody tr")).to_have_count(1)
    assert "search=log%2077" in page.url
    page.reload()
    expect(page.locator("main tbody tr")).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value("log 77")
    page.get_by_role("searchbox").fill("nothing of this kind")
    expect(page.locator(".empty")).to_contain_text("Nothing matches “nothing of this kind”")
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator("main tbody tr")).to_have_count(50)


def test_a_row_opens_whole_and_states_the_limit_of_its_scan(
    console: GeneratedConsole, opened: Opened
) -> None:
    page = opened("#/table/p2panda-logs")
    row = page.locator("main tbody tr").nth(3)
    console.detail_waits.clear()
    row.click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("Reading the topics")
    console.detail_waits.set()
    expect(panel).to_contain_text("1,204 records read in 0.31 s. The limit is 5 s.")
    expect(panel.locator("tbody tr")).to_have_count(100)
    panel.get_by_role("button", name="Show all 240 rows").click()
    expect(panel.locator("tbody tr")).to_have_count(240)
    expect(row).to_have_attribute("aria-current", "true")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(row).to_be_focused()


def test_a_shortened_id_has_one_line_and_the_table_of_a_panel_scrolls(
    console: GeneratedConsole, opened: Opened
) -> None:
    schema = f"venues_0020{hexadecimal('schema')}"
    row = console.tables["p2panda-logs"].page("", "", 1)["rows"][0] | {"key": schema}
    console.tables["p2panda-logs"].extra = [row]
    page = opened(f"#/table/p2panda-logs/{schema}", size=(900, 700))
    place = page.locator("#panel tbody tr").first.locator("td").last.locator("code")
    heights = place.evaluate("code => [code.offsetHeight, parseFloat(getComputedStyle(code).lineHeight)]")
    assert heights[0] < 1.5 * heights[1], heights
    assert page.locator("#panel").evaluate("panel => panel.scrollWidth <= panel.clientWidth")


def test_a_scan_that_met_its_limit_says_so(console: GeneratedConsole, opened: Opened) -> None:
    console.tables["dag-ids"].complete = False
    page = opened("#/table/dag-ids/row%2F2")
    expect(page.locator("#panel .scan")).to_contain_text("stopped at its limit of 5 s: there may be more")
    expect(page.locator("main > .screen > .note")).to_contain_text("These are not all rows")


def test_escape_ends_a_scan(console: GeneratedConsole, opened: Opened) -> None:
    page = opened("#/table/p2panda-logs")
    console.detail_waits.clear()
    page.locator("main tbody tr").first.click()
    expect(page.locator("#panel")).to_contain_text("Esc ends it")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()


def test_a_row_that_is_gone_is_an_error_in_the_panel(opened: Opened) -> None:
    page = opened("#/table/p2panda-logs/none", expected=("404",))
    expect(page.locator("#panel").get_by_role("alert")).to_contain_text("there is no such row")


def test_a_proof_is_shown_as_hex_and_copied_whole(opened: Opened) -> None:
    page = opened("#/table/rejected/row%2F3")
    panel = page.locator("#panel")
    proof = hexadecimal("row/3") * 20
    expect(panel.locator(".hex")).to_contain_text(f"{proof[:8]} {proof[8:16]}")
    panel.get_by_role("button", name=re.compile("Copy the bytes")).click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == proof


def test_an_id_is_shortened_and_whole_on_hover_focus_and_copy(opened: Opened) -> None:
    page = opened("#/table/p2panda-logs")
    row = page.locator("main tbody tr").first
    code = row.locator("code").first
    whole = code.get_attribute("data-full")
    assert whole is not None and len(whole) == 64
    expect(code).to_have_text(f"{whole[:9]}…{whole[-9:]}")
    code.hover()
    expect(page.get_by_role("tooltip")).to_have_text(whole)
    row.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("tooltip")).to_have_text(whole)
    page.keyboard.press("c")
    expect(page.locator("#toast")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == whole


def test_what_others_wrote_is_text_and_never_markup(console: GeneratedConsole, opened: Opened) -> None:
    cells: dict[str, object] = dict.fromkeys(("author", "log", "height"), HOSTILE)
    cells |= {"schema": f"\u202e{HOSTILE}", "updated": 1e300}
    console.tables["p2panda-logs"] = GeneratedTable(
        "p2panda-logs", 1, note=HOSTILE, extra=[{"key": f"{HOSTILE}/ä?#%", "cells": cells, "severity": 0}]
    )
    console.deployment.set_edge("edge-1", "not_ready", 2, HOSTILE)
    console.deployment.edge("edge-1").update(name=HOSTILE, version=HOSTILE, id=f"{HOSTILE}/#?")
    page = opened()
    row = page.locator("section:has(h2:text-is('Edges')) tbody tr").first
    expect(row).to_contain_text(HOSTILE)
    row.click()
    expect(page.locator("#panel h2")).to_have_text(HOSTILE)
    page.goto(f"{console.address}/#/table/p2panda-logs")
    expect(page.locator("main > .screen > .note")).to_have_text(HOSTILE)
    page.locator("main tbody tr").first.click()
    expect(page.locator("#panel")).to_contain_text("1,204 records")
    expect(page.locator("#panel h2")).to_contain_text("onerror")
    assert page.locator("img").count() == 1  # the mark of the page
    assert page.locator("script").count() == 2
    assert "owned" not in page.title()


def test_a_broker_that_is_away_keeps_the_rows_and_says_what_to_do(
    console: GeneratedConsole, opened: Opened
) -> None:
    page = opened("#/table/sds-channels", expected=("503",))
    expect(page.locator("main tbody tr")).to_have_count(50)
    console.tables_away = ("Kafka at kafka-1:9092 does not answer", "start the broker")
    page.get_by_role("combobox").select_option("25")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Kafka at kafka-1:9092 does not answer")
    expect(alert).to_contain_text("start the broker")
    expect(page.locator("main tbody tr")).to_have_count(50)
    console.tables_away = None
    alert.get_by_role("button", name="Try again").click()
    expect(page.locator("main tbody tr")).to_have_count(25)


def test_a_table_is_read_again_on_demand(console: GeneratedConsole, opened: Opened) -> None:
    console.tables["sds-channels"].rows = 3
    page = opened("#/table/sds-channels")
    expect(page.locator("main tbody tr")).to_have_count(3)
    console.tables["sds-channels"].rows = 4
    page.keyboard.press("r")
    expect(page.locator("main tbody tr")).to_have_count(4)
    console.tables["sds-channels"].rows = 5
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator("main tbody tr")).to_have_count(5)


def test_a_severity_has_a_shape_and_words(console: GeneratedConsole, opened: Opened) -> None:
    row = console.tables["p2panda-logs"].page("", "", 1)["rows"][0] | {"severity": 3, "key": "row/9"}
    console.tables["p2panda-logs"].extra = [row]
    first = opened("#/table/p2panda-logs").locator("main tbody tr td").first
    expect(first.locator(".mark svg")).to_have_count(1)
    expect(first).to_contain_text("failed:")


def test_an_empty_table_says_when_rows_appear(console: GeneratedConsole, opened: Opened) -> None:
    for name in ("rejected", "p2panda-logs"):
        console.tables[name].rows = 0
    page = opened("#/table/rejected")
    expect(page.locator(".empty")).to_contain_text("Nothing was rejected")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.locator("h1")).to_contain_text("edges")
    page.goto(f"{console.address}/#/table/p2panda-logs")
    expect(page.locator(".empty")).to_contain_text("There are no rows yet")
    page.goto(f"{console.address}/#/table/unknown")
    expect(page.locator(".empty")).to_contain_text("There is no table “unknown”")
