"""The allow-list: who may connect, and for what."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.edge.access import (
    ALLOW_EVERYBODY,
    AccessError,
    AccessList,
    AccessRules,
    load_access_list,
)
from culm_connectors.p2panda.access import permitted
from culm_connectors.rate_limit import TokenBucket
from culm_connectors.settings import parse_address
from culm_connectors.transport.principal import Principal
from culm_connectors.url import parse_url

A, B = bytes(range(32)), bytes(range(1, 33))
WHERE = ("127.0.0.1", 1)


def load(path: Path) -> AccessList:
    return load_access_list(path, ["peers", "channels", "more"])


def lets_in(rules: AccessRules, principal: Principal) -> bool:
    return rules.judge(principal) is None


def test_without_a_list_everybody_may_have_everything() -> None:
    rules = ALLOW_EVERYBODY.rules("peers")
    assert lets_in(rules, Principal.of_key(A, WHERE)) and lets_in(rules, Principal.of_address(WHERE))
    assert permitted(rules, A, ["x", "y"]) == ("x", "y")


def test_a_key_that_is_not_listed_is_a_stranger(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(f'[peers]\n{A.hex()} = ["*"]\n')
    rules = load(path).rules("peers")
    assert lets_in(rules, Principal.of_key(A, WHERE))
    assert not lets_in(rules, Principal.of_key(B, WHERE))
    assert not lets_in(rules, Principal.of_address(WHERE))


def test_rules_name_whoever_can_be_behind_a_connection(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    token = Principal.of_token("open sesame", WHERE)
    assert "sesame" not in token.name
    path.write_text(
        f'[peers]\n[more]\n"{A.hex().upper()}" = ["*"]\n"tls:{B.hex()}" = ["x"]\n"address:127.0.0.1" = ["y"]'
        f'\n"{token.name}" = []\n'
    )
    rules = load(path).rules("more")
    assert rules.of(Principal.of_key(A, WHERE).name) is None
    assert rules.allows(Principal.of_tls_key(B, WHERE).name, "x")
    assert rules.allows(Principal.of_address(WHERE).name, "y")
    assert not lets_in(rules, token)
    assert not lets_in(rules, Principal.of_address(("127.0.0.2", 1)))


def test_a_protocol_without_a_table_has_everything_for_whom_peers_lets_in(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(f'[peers]\n{A.hex()} = ["x"]\n{B.hex()} = []\n')
    rules = load(path).rules("more")
    assert rules.allows(A.hex(), "anything")
    assert not lets_in(rules, Principal.of_key(B, WHERE))
    assert not lets_in(rules, Principal.of_address(WHERE))


def test_everybody_else_can_be_given_a_part(tmp_path: Path) -> None:
    path = tmp_path / "allowed.json"
    path.write_text(f'{{"peers": {{"{A.hex()}": ["x", "z"], "*": ["x"]}}}}')
    rules = load(path).rules("peers")
    assert permitted(rules, A, ["z", "y", "x"]) == ("z", "x")
    assert permitted(rules, B, ["z", "y", "x"]) == ("x",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "peers = 3",
        "[peers]\nabc = ['*']",
        f"[peers]\n{A.hex()} = '*'",
        f"[peers]\n{A.hex()} = [3]",
        "[peers]\n[other]",
        "[peers]\n'tls:abc' = ['*']",
        "[peers]\n'address:nowhere' = ['*']",
        "[peers]\n'name:ann' = ['*']",
        "[peers",
    ],
)
def test_what_is_no_rule_is_an_error_and_never_a_door(tmp_path: Path, text: str) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(text)
    with pytest.raises(AccessError):
        load(path)
    with pytest.raises(AccessError):
        load(tmp_path / "missing.toml")


def test_a_bucket_holds_its_burst_and_fills_with_its_rate() -> None:
    bucket = TokenBucket(rate=10, burst=5, updated_s=100.0)
    assert [bucket.take(1, 100.0) for _ in range(6)] == [True] * 5 + [False]
    assert bucket.take(1, 100.125)
    assert not bucket.take(1, 100.125)
    assert bucket.take(5, 200.0)
    assert not bucket.take(1, 200.0)


def test_debt_is_paid_by_waiting() -> None:
    bucket = TokenBucket(rate=100, burst=10, updated_s=1.0)
    assert bucket.wait_s(10, 1.0) == 0.0
    assert bucket.wait_s(50, 1.0) == pytest.approx(0.5)
    assert bucket.wait_s(0, 2.0) == 0.0
    assert TokenBucket(rate=0, burst=1).wait_s(1_000_000, 5.0) == 0.0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:0", ("::1", 0)),
        ("host.example:4455", ("host.example", 4455)),
        ("quic://host.example:4455", ("host.example", 4455)),
        ("quic://[::1]:1/", ("::1", 1)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1", ":80", "host:", "host:70000", "host:-1", "::1:80", "[::1:1", "a b:1", "h/p:1", "u@h:1"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        parse_address(text)


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:80", "http://127.0.0.1:80", "4455"])
def test_an_error_about_an_address_lists_the_schemes(text: str) -> None:
    with pytest.raises(ValueError, match="write HOST:PORT or quic://HOST:PORT"):
        parse_address(text)


def test_an_address_without_a_scheme_has_the_default_transport() -> None:
    assert str(parse_url("host:1", default="tls")) == "tls://host:1"
    with pytest.raises(ValueError, match="write tcp://HOST:PORT, tls://HOST:PORT or quic://HOST:PORT"):
        parse_url("host:1")
