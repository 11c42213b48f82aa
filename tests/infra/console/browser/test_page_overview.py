"""The overview: worst first, updated in place, honest when it is not live."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.infra.console.browser.conftest import Opened
from tests.support.console_page.documents import Deployment
from tests.support.console_page.server import GeneratedConsole

pytestmark = pytest.mark.deploy
EDGES = "section:has(h2:text-is('Edges')) tbody tr"


def test_a_failed_edge_comes_first_with_its_reason(console: GeneratedConsole, opened: Opened) -> None:
    page = opened()
    expect(page.locator(EDGES)).to_have_count(4)
    expect(page.locator("h1")).to_have_text("4 edges and 6 jobs, all ready")
    console.deployment.set_edge("edge-3", "down", 3, "nothing runs: no process accepts connections there")
    first = page.locator(EDGES).first
    expect(first).to_contain_text("Down")
    expect(first).to_contain_text("nothing runs: no process accepts connections there")
    expect(page.locator("h1")).to_have_text("Edge edge-3 is down")
    expect(page.locator("#announce")).to_contain_text("edge edge-3: down, nothing runs")
    expect(page).to_have_title("(1) Culm console")
    console.deployment.set_edge("edge-3", "ready", 0)
    expect(page.locator("h1")).to_have_text("4 edges and 6 jobs, all ready")
    expect(page).to_have_title("Culm console")


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("not_ready", "Not ready"),
        ("draining", "Draining"),
        ("older", "Older version"),
        ("refused", "Refused"),
        ("unknown", "Unknown"),
    ],
)
def test_every_state_has_a_word_and_a_shape(
    state: str, shown: str, console: GeneratedConsole, opened: Opened
) -> None:
    console.deployment.set_edge("edge-2", state, 2, "the reason")
    row = opened().locator(EDGES).first
    expect(row.locator(".badge")).to_have_text(shown)
    expect(row.locator(".badge svg")).to_have_count(1)
    expect(row).to_contain_text("the reason")


def test_rows_are_updated_in_place_and_keep_the_focus(console: GeneratedConsole, opened: Opened) -> None:
    page = opened()
    row = page.locator(EDGES, has_text="edge-2")
    row.focus()
    expect(row).to_be_focused()
    page.evaluate("document.activeElement.marked = true")
    console.deployment.set_edge("edge-4", "down", 3, "gone")
    console.deployment.set_edge("edge-2", "not_ready", 2, "building the index")
    expect(row).to_contain_text("building the index")
    expect(page.locator(EDGES).nth(1)).to_contain_text("edge-2")
    assert page.evaluate("document.activeElement.marked === true")
    # Rows that moved have the borders of their new place.
    borders = [
        page.locator(EDGES)
        .nth(place)
        .locator("td")
        .first.evaluate("cell => getComputedStyle(cell).borderBottomWidth")
        for place in range(4)
    ]
    assert borders == ["1px", "1px", "1px", "0px"]
    assert page.evaluate("document.activeElement.textContent.includes('edge-2')")


def test_sparklines_show_the_recent_numbers(opened: Opened) -> None:
    page = opened()
    line = page.locator(".tile .spark .line").nth(1)
    expect(line).to_have_attribute("d", re.compile("^M.*L.*L"))


def test_a_job_shows_its_last_error_and_what_to_do(console: GeneratedConsole, opened: Opened) -> None:
    job = next(job for job in console.deployment.jobs if len(job["queries"]) == 2)
    error = {"time_ms": 1, "kind": "fatal", "cause": "the checkpoint is of format 3", "hint": "repair it"}
    job["severity"] = 3
    job["queries"][1].update(state="restarting", failures=4, last_error=error)
    page = opened()
    row = page.locator("section:has(h2:text-is('Jobs')) tbody tr").first
    expect(row).to_contain_text("sds-index")
    expect(row).to_contain_text("the checkpoint is of format 3. repair it")
    row.click()
    expect(page.locator("#panel")).to_contain_text("repair it")


def test_a_topic_without_rights_is_shown_as_such(console: GeneratedConsole, opened: Opened) -> None:
    console.deployment.topics[4].update(readable=False, detail="not allowed to describe it", severity=2)
    row = opened().locator("section:has(h2:text-is('Topics')) tbody tr").first
    expect(row).to_contain_text("Not readable")
    expect(row).to_contain_text("not allowed to describe it")


def test_an_edge_opens_with_its_protocols_and_warnings(console: GeneratedConsole, opened: Opened) -> None:
    edge = console.deployment.edge("edge-1")
    edge["warnings"] = [{"time_ms": 1_795_780_000_000, "level": "warning", "message": "the clock jumped"}]
    page = opened()
    page.locator(EDGES, has_text="edge-1").click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text(edge["peer_id"])
    expect(panel).to_contain_text("the clock jumped")
    console.deployment.set_edge("edge-1", "draining", 1, "waits for 3 peers")
    expect(panel).to_contain_text("waits for 3 peers")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator(EDGES, has_text="edge-1")).to_be_focused()


def test_an_open_edge_that_changes_keeps_the_focus_and_the_selection(
    console: GeneratedConsole, opened: Opened
) -> None:
    page = opened()
    page.locator(EDGES, has_text="edge-1").click()
    panel = page.locator("#panel")
    for control in (
        page.locator("#panel-title"),
        panel.get_by_role("button", name="Close"),
        panel.get_by_role("button", name="Copy the id"),
    ):
        control.focus()
        text = panel.inner_text()
        page.wait_for_function("text => document.getElementById('panel').innerText !== text", arg=text)
        expect(control).to_be_focused()
    panel.locator("dd").first.select_text()
    page.wait_for_timeout(2_500)
    assert console.deployment.edge("edge-1")["target"] in page.evaluate("String(getSelection())")


def test_the_filter_and_the_states_select_rows(console: GeneratedConsole, opened: Opened) -> None:
    console.deployment.set_edge("edge-2", "down", 3, "gone")
    page = opened()
    page.get_by_role("button", name="1 down").click()
    expect(page.locator(EDGES)).to_have_count(1)
    page.get_by_role("button", name="1 down").click()
    page.keyboard.press("/")
    page.keyboard.type("edge-4")
    expect(page.locator(EDGES)).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(EDGES)).to_have_count(4)


def test_a_stream_that_ends_is_said_to_be_not_live_and_is_opened_again(
    console: GeneratedConsole, opened: Opened
) -> None:
    page = opened(expected=("503", "Failed to load", "ERR_"))
    live = page.locator("#live")
    expect(live).to_contain_text("Live")
    console.events_refused = True
    expect(live).to_contain_text(re.compile(r"Not live since \d\d:\d\d:\d\d"))
    expect(page.get_by_role("button", name="Connect now")).to_be_visible()
    expect(page.locator(EDGES)).to_have_count(4)
    console.events_refused = False
    page.get_by_role("button", name="Connect now").click()
    expect(live).to_contain_text(re.compile(r"^Live"))
    expect(page.get_by_role("button", name="Connect now")).to_be_hidden()


def test_a_broker_that_is_away_is_a_banner(console: GeneratedConsole, opened: Opened) -> None:
    console.deployment.kafka = {"state": "down", "detail": "kafka-1:9092 refuses connections"}
    expect(opened().get_by_role("alert")).to_contain_text("kafka-1:9092 refuses connections")


def test_an_empty_deployment_says_what_to_do(console: GeneratedConsole, opened: Opened) -> None:
    console.deployment.edges, console.deployment.jobs, console.deployment.topics = [], [], []
    page = opened()
    expect(page.locator(".empty")).to_contain_text("culm connector run")
    expect(page.locator(".empty")).to_contain_text("[console]")
    expect(page.locator("section:has(h2:text-is('Topics'))")).to_contain_text("culm topics create")


def test_an_hour_of_documents_needs_no_more_memory(console: GeneratedConsole, opened: Opened) -> None:
    console.interval_s = 0.01
    page = opened()
    session = page.context.new_cdp_session(page)

    def used_bytes_after(documents: int) -> float:
        until = console.sent + documents
        while console.sent < until:
            page.wait_for_timeout(100)
        session.send("HeapProfiler.collectGarbage")
        return float(session.send("Runtime.getHeapUsage")["usedSize"])

    # One in two seconds makes an hour; the first ones fill the series and have the page compiled.
    before = used_bytes_after(900)
    after = used_bytes_after(1_800)
    print(f"heap after 900 documents: {before / 1e6:.2f} MB, after an hour more: {after / 1e6:.2f} MB")
    assert after < before + 400_000


def test_a_ready_edge_with_a_growing_lag_is_lagging(console: GeneratedConsole, opened: Opened) -> None:
    console.deployment.set_edge("edge-2", "ready", 2, "the lag has not shrunk for half a minute")
    row = opened().locator(EDGES).first
    expect(row.locator(".badge")).to_have_text("Lagging")
    expect(row).to_contain_text("the lag has not shrunk")


def test_a_thousand_edges_are_updated_in_bounded_time_and_memory(
    console: GeneratedConsole, opened: Opened
) -> None:
    console.deployment = Deployment(edges=1_000, peers=10_000)
    page = opened()
    expect(page.locator(EDGES)).to_have_count(50)
    page.get_by_role("button", name="Show 50 more").click()
    expect(page.locator(EDGES)).to_have_count(100)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    assert nodes < 8_000
    longest_ms = page.evaluate(
        """async () => {
          let longest = 0;
          let before = performance.now();
          const until = before + 6000;
          while (before < until) {
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            longest = Math.max(longest, now - before);
            before = now;
          }
          return longest;
        }"""
    )
    print(f"longest frame with 1,000 edges: {longest_ms:.0f} ms")
    console.deployment.set_edge("edge-777", "down", 3, "gone")
    expect(page.locator(EDGES).first).to_contain_text("edge-777")
    assert page.evaluate("document.querySelectorAll('*').length") < nodes + 500
