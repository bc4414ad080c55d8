"""Which links a request to the proxy is about."""

from __future__ import annotations

import pytest

from drlib.lab.link.proxy import _names

LINKS = ("LEFT-1", "LEFT-2", "RIGHT-1", "apps:LEFT-1", "apps:LEFT-2", "apps:RIGHT-1")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, ["LEFT-1", "LEFT-2", "RIGHT-1"]),  # all links of mirrors
        ("LEFT", ["LEFT-1", "LEFT-2"]),
        ("LEFT-2", ["LEFT-2"]),
        ("apps:LEFT", ["apps:LEFT-1", "apps:LEFT-2"]),
        ("apps:RIGHT-1", ["apps:RIGHT-1"]),
        ("NORTH", []),
    ],
)
def test_request_is_about_the_links_that_it_names(wanted: str | None, expected: list[str]) -> None:
    assert [link for link in LINKS if _names(wanted, link)] == expected
