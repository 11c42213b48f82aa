"""Who is behind a connection, and who shares a budget."""

from __future__ import annotations

import pytest

from culm_connectors.transport.principal import neighbourhood


@pytest.mark.parametrize(
    ("host", "who"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_who_has_a_network_whole_is_one_client(host: str, who: str) -> None:
    assert neighbourhood(host) == who
