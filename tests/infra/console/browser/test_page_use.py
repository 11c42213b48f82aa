"""Access, keyboard, themes, widths, paper, and what screen readers get."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.infra.console.browser.conftest import Opened
from tests.support.console_page.appearance import (
    accessibility_tree,
    overflowing,
    poor_contrast,
    small_targets,
    unnamed,
)
from tests.support.console_page.browser import PHONE
from tests.support.console_page.server import GeneratedConsole

pytestmark = pytest.mark.deploy
ROUTES = ("", "#/table/p2panda-logs", "#/table/sds-channels", "#/table/rejected/row%2F3")


def loaded(page: Page) -> Page:
    """Wait until the screen, and the panel of its route, have their rows."""
    expect(page.locator("main tbody tr").first).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    return page


def varied(console: GeneratedConsole) -> None:
    """Let the overview have every tone."""
    states = {"down": 3, "not_ready": 2, "draining": 1, "ready": 0}
    for number, (state, severity) in enumerate(states.items(), 1):
        console.deployment.set_edge(f"edge-{number}", state, severity, *(["a reason"] if severity else []))
    console.deployment.kafka = {"state": "down", "detail": "kafka-1:9092 does not answer"}


def test_without_the_token_the_page_asks_for_it(console: GeneratedConsole, opened: Opened) -> None:
    console.token = "a-token-of-this-console"
    page = opened("#/table/rejected", expected=("401",))
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    field.fill("another one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("That is not the token of this console")
    assert "another" not in page.url
    page.get_by_label("Token").fill(console.token)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Rejected")
    assert "token" not in page.url
    console.token = "a new token after a restart"
    page.get_by_role("link", name="Logs").click()
    expect(page.get_by_label("Token")).to_be_visible()


def test_arrow_keys_move_through_rows_and_enter_opens_one(opened: Opened) -> None:
    page = loaded(opened("#/table/p2panda-logs"))
    table = page.locator("main tbody tr")
    assert page.locator("main tbody tr[tabindex='0']").count() == 1
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    expect(table.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    expect(table.nth(2)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("End")
    expect(table.last).to_be_focused()
    page.keyboard.press("Home")
    expect(table.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(table.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("r")
    expect(table.nth(1)).to_be_focused()
    with page.expect_response(lambda answer: "/api/tables/p2panda-logs?" in answer.url):
        page.keyboard.press("r")
    loaded(page)
    expect(table.nth(1)).to_be_focused()
    page.keyboard.press("]")
    expect(page.locator(".place")).to_contain_text("51–")
    expect(table.first).to_be_focused()
    page.goto(page.url.partition("#")[0])
    for title in ("Edges", "Jobs", "Topics"):
        members = page.locator(f"section:has(h2:text-is('{title}')) tbody tr")
        members.first.focus()
        page.keyboard.press("ArrowDown")
        expect(members.nth(1)).to_be_focused()


def test_shortcuts_are_listed_and_lead_through_the_screens(opened: Opened) -> None:
    page = loaded(opened())
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.locator("h1")).to_have_text("Rejected")
    page.keyboard.press("3")
    expect(page.locator("h1")).to_have_text("Logs")


def test_the_tab_key_reaches_everything_and_the_focus_is_seen(opened: Opened) -> None:
    page = loaded(opened())
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name, width = page.evaluate(
            """() => {
              const at = document.activeElement;
              const style = getComputedStyle(at);
              return [at.tagName + "." + (at.id || at.className), parseFloat(style.outlineWidth)];
            }"""
        )
        if name.startswith("BODY"):
            break
        reached.append(name)
        assert width >= 2, name
    assert reached[0] == "A.skip"
    assert "BUTTON.theme" in reached and "BUTTON.help" in reached
    assert sum(name.startswith("TR") for name in reached) == 3  # one stop in each table


def test_the_theme_is_that_of_the_system_until_one_is_chosen(opened: Opened) -> None:
    page = loaded(opened(dark=True))

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = ground()
    button = page.get_by_role("button", name="Theme: that of the system")
    button.click()
    light = ground()
    assert light != dark
    page.reload()
    loaded(page)
    assert ground() == light
    page.keyboard.press("t")
    assert ground() == dark
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Theme: that of the system")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("route", ROUTES)
def test_texts_have_contrast_and_controls_have_names_and_sizes(
    route: str, dark: bool, console: GeneratedConsole, opened: Opened
) -> None:
    varied(console)
    page = loaded(opened(route, dark=dark))
    assert poor_contrast(page) == []
    assert small_targets(page) == []
    assert unnamed(page) == []


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_cut_at_the_width_of_a_phone(
    route: str, console: GeneratedConsole, opened: Opened
) -> None:
    varied(console)
    page = loaded(opened(route, size=PHONE))
    assert overflowing(page) == []
    assert small_targets(page) == []
    # Rows are cards there, and still a table for screen readers.
    roles = {node["role"] for node in accessibility_tree(page)}
    assert {"table", "row", "cell", "columnheader"} <= roles or "panel" in route or "row%2F" in route


def test_a_panel_that_covers_a_phone_has_the_tab_key_to_itself(opened: Opened) -> None:
    page = loaded(opened("#/table/p2panda-logs/row%2F1", size=PHONE))
    covered = page.locator("main[inert], nav[inert], header.top[inert]")
    expect(covered).to_have_count(3)
    page.set_viewport_size({"width": 1_200, "height": 740})
    expect(covered).to_have_count(0)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    expect(covered).to_have_count(3)
    page.keyboard.press("Escape")
    expect(covered).to_have_count(0)


def test_screen_readers_get_landmarks_live_regions_and_whole_ids(opened: Opened) -> None:
    page = loaded(opened("#/table/p2panda-logs/row%2F1"))
    tree = accessibility_tree(page)
    roles = [node["role"] for node in tree]
    for landmark in ("banner", "navigation", "main", "complementary"):
        assert landmark in roles
    assert any(node.get("live") == "polite" for node in tree)
    whole = page.locator("main tbody tr code").first.get_attribute("data-full") or ""
    assert any(node["role"] == "cell" and whole in node["name"] for node in tree)
    assert page.locator("main svg:not([aria-hidden='true'])").count() == 0


def test_motion_is_reduced_if_the_system_asks_for_it(console: GeneratedConsole, opened: Opened) -> None:
    page = loaded(opened("#/table/p2panda-logs", reduced_motion="reduce"))
    console.detail_waits.clear()
    page.locator("main tbody tr").first.click()
    assert page.locator(".busy").evaluate("element => getComputedStyle(element).animationName") == "none"
    console.detail_waits.set()
    expect(page.locator("#panel")).to_contain_text("1,204 records")


def test_on_paper_there_is_content_alone(opened: Opened) -> None:
    page = loaded(opened(dark=True))
    page.emulate_media(media="print")
    expect(page.locator("#nav")).to_be_hidden()
    expect(page.get_by_role("searchbox")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height > page.evaluate("innerHeight")  # nothing scrolls inside of the page
    assert len(page.pdf()) > 10_000
