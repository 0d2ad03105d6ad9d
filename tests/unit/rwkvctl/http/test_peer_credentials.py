"""Who counts as one stranger over TCP."""

import pytest

from rwkvctl.http.peer_credentials import network_of


@pytest.mark.parametrize(
    ("address", "who"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_a_customer_of_ipv6_is_one(address: str, who: str) -> None:
    assert network_of(address) == who
