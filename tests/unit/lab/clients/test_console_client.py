"""What the console tools are given, and what is read of their lines."""

from __future__ import annotations

import pytest

from drlib.lab.clients.console_client import command, identity


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("id:client-console-12,n:1\tclient-console-12\n", ("client-console", 12, 1)),
        ("id:x-0,n:0\t", ("x", 0, 0)),
        ("[2026-11-26] WARN id:x-0,n:0\t", None),
        ("NO_HEADERS\tvalue", None),
        ("", None),
    ],
)
def test_printed_record_is_identified_by_its_headers(line: str, expected: tuple[str, int, int] | None) -> None:
    assert identity(line) == expected


def test_console_consumer_takes_exactly_the_topics_that_it_is_given() -> None:
    argv = command(["java"], "consume", "g", "127.0.0.1:1", ["flights", "LEFT.flights"])
    assert argv[argv.index("--include") + 1] == r"flights|LEFT\.flights"
    assert argv[argv.index("--group") + 1] == "g"


def test_console_producer_writes_to_one_topic() -> None:
    argv = command(["java"], "produce", "g", "127.0.0.1:1", ["flights"])
    assert argv[argv.index("--topic") + 1] == "flights"
