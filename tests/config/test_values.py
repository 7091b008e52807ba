from __future__ import annotations

import pytest

from freetrain.config.values import parse_networks


@pytest.mark.parametrize(
    ("address", "is_among"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("128.0.0.1", False),
        ("10.1.2.3", True),
        ("10.2.0.1", False),
        ("::1", True),
        ("::2", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:10.2.0.1", False),
        ("fe80::1%eth0", True),
        ("", False),
        ("localhost", False),
        (None, False),
    ],
)
def test_an_address_lies_in_one_of_them_or_not(address: object, is_among: bool) -> None:
    assert (address in parse_networks(" 127.0.0.0/8, 10.1.0.0/16,::1,fe80::/10 ")) is is_among


def test_an_empty_list_has_nobody() -> None:
    assert "127.0.0.1" not in parse_networks("")
