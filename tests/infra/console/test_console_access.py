"""Who may see the console, and the headers of every answer."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from culm_infra.console.server import ConsoleError
from culm_infra.sections.console import ConsoleSection
from tests.support.console.served import serving

TOKEN = "0123456789abcdef-token"
PATHS = ("/api/overview", "/api/events", "/api/tables", "/api/tables/x", "/x")


async def test_no_data_is_shown_without_the_token() -> None:
    async with serving() as console, httpx.AsyncClient(base_url=console.client.base_url) as stranger:
        for path in PATHS:
            answer = await stranger.get(path)
            assert answer.status_code == 401
            assert "token" in answer.text
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_page_and_its_files_are_open_so_that_the_page_can_ask_for_the_token() -> None:
    async with serving() as console, httpx.AsyncClient(base_url=console.client.base_url) as stranger:
        page = await stranger.get("/")
        assert (page.status_code, page.headers["cache-control"]) == (401, "no-store")
        assert page.content == (await console.client.get("/")).content
        files = re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.text)
        assert files
        for path in files:
            assert (await stranger.get(path)).status_code == 200
        assert (await stranger.get("/assets/../api/overview")).status_code in (401, 404)


@pytest.mark.parametrize("given", ["", "x", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "é" * 22])
async def test_a_wrong_token_is_refused_with_a_sentence(given: str) -> None:
    async with (
        serving(token=TOKEN) as console,
        httpx.AsyncClient(base_url=console.client.base_url) as stranger,
    ):
        refused = [
            await stranger.get("/", params={"token": given}),
            await stranger.get("/api/overview", params={"token": given}),
            await stranger.get(
                "/api/overview", headers={b"Authorization": f"Bearer {given or 'x'}".encode()}
            ),
        ]
        assert {answer.status_code for answer in refused} == {401}
        assert refused[1].json()["error"] == "the token is wrong"
        assert "culm console" in refused[1].json()["hint"]
        assert refused[0].headers["content-type"].startswith("text/html")
        stranger.cookies.set(f"culm-console-{console.client.base_url.port}", "0" * 64)
        assert (await stranger.get("/api/overview")).status_code == 401


async def test_a_browser_keeps_a_cookie_and_loses_the_token_from_its_address() -> None:
    async with serving() as console, httpx.AsyncClient() as browser:
        assert console.served.token is not None
        answer = await browser.get(console.served.url)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
        assert console.served.token not in cookie
        page = await browser.get(console.client.base_url)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert (await browser.get(console.client.base_url.join("/api/overview"))).status_code == 200


async def test_a_token_of_the_settings_is_not_printed() -> None:
    async with serving(token=TOKEN) as console:
        assert console.served.token is None
        assert TOKEN not in console.served.url
        assert await console.overview()


async def test_every_answer_has_the_security_headers() -> None:
    async with serving() as console:
        answers = [
            await console.client.get(path) for path in ("/", "/api/overview", "/api/tables", "/nothing")
        ]
        answers.append(await httpx.AsyncClient().get(console.client.base_url))
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'self'")
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-frame-options"] == "DENY"
        assert answers[1].headers["cache-control"] == "no-store"
        assert "server" not in answers[1].headers


async def test_the_page_has_a_strong_entity_tag() -> None:
    async with serving() as console:
        page = await console.client.get("/")
        tag = page.headers["etag"]
        assert tag.startswith('"')
        again = await console.client.get("/", headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/assets/../app.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd", "/assets/"]
)
async def test_only_files_of_the_page_are_served(path: str) -> None:
    async with serving() as console:
        assert (await console.client.get(path)).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_console_only_reads(method: str) -> None:
    async with serving() as console:
        for path in ("/", "/api/overview", "/api/tables"):
            answer = await console.client.request(method, path)
            assert answer.status_code == 405
            assert answer.json() == {"error": "the console only reads: use GET", "hint": None}


async def test_an_unknown_path_and_an_unknown_table_are_named() -> None:
    async with serving() as console:
        answer = await console.client.get("/api/nothing")
        assert (answer.status_code, answer.json()["error"]) == (404, "there is nothing at '/api/nothing'")
        answer = await console.client.get("/api/tables/nothing")
        assert (answer.status_code, answer.json()["error"]) == (404, "there is no table 'nothing'")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"listen": "0.0.0.0:8780"}, "can be reached from other machines"),
        ({"listen": "[::]:8780"}, "can be reached from other machines"),
        ({"listen": "console.example:8780"}, "can be reached from other machines"),
        ({"listen": "8780"}, "is no address"),
        ({"tls_key": "/etc/key.pem"}, "go together"),
        ({"token": "short"}, "at least 16 characters"),
        ({"token": "with a space inside of it"}, "without spaces"),
        ({"targets": ["edge-1:9100"]}, "is not a target"),
        ({"targets": ["https://edge-1:9100"]}, "is not a target"),
        ({"targets": ["http://edge-1"]}, "is no address"),
        ({"targets": ["unix:"]}, "needs the path"),
    ],
)
def test_a_wrong_setting_is_explained(wrong: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ConsoleSection.model_validate(wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"listen": "localhost:0"},
        {"listen": "[::1]:0"},
        {"listen": "http://127.9.9.9:0"},
        {"listen": "0.0.0.0:8780", "behind_proxy": True},
        {"listen": "0.0.0.0:8780", "tls_certificate": "/etc/c.pem", "tls_key": "/etc/k.pem"},
    ],
)
def test_other_addresses_than_loopback_need_tls_or_a_proxy(right: dict[str, object]) -> None:
    ConsoleSection.model_validate(right)


async def test_an_address_in_use_is_named_with_the_remedy() -> None:
    async with serving() as console:
        with pytest.raises(ConsoleError, match=console.served.address) as refused:
            async with serving(listen=console.served.address):
                pass
        assert refused.value.hint is not None
        assert "--listen" in refused.value.hint


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "console.pem"
    file.write_text("no certificate")
    with pytest.raises(ConsoleError, match="certificate"):
        async with serving(tls_certificate=file, tls_key=file):
            pass
