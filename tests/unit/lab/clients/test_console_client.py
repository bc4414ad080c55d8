"""What the console tools are given, and what is read of their lines."""

from __future__ import annotations

import pytest

from drlib.lab.clients.console_client import Printed, command, printed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Partition:2\tOffset:7\tid:client-console-12,n:1\tvalue\n", Printed("client-console", 12, 1, 2, 7)),
        ("Partition:0\tOffset:0\tid:x-0,n:0\t", Printed("x", 0, 0, 0, 0)),
        ("id:x-0,n:0\tvalue", None),
        ("[2026-11-26] WARN Partition:0\tOffset:0\tid:x-0,n:0\t", None),
        ("Partition:0\tOffset:0\tNO_HEADERS\tvalue", None),
        ("", None),
    ],
)
def test_printed_record_is_identified_by_its_headers_and_its_place(line: str, expected: Printed | None) -> None:
    assert printed(line) == expected


def test_console_consumer_takes_exactly_the_topics_that_it_is_given() -> None:
    argv = command(["java"], "consume", "g", "127.0.0.1:1", ["flights", "LEFT.flights"])
    assert argv[argv.index("--include") + 1] == r"flights|LEFT\.flights"
    assert argv[argv.index("--group") + 1] == "g"


def test_console_producer_writes_to_one_topic() -> None:
    argv = command(["java"], "produce", "g", "127.0.0.1:1", ["flights"])
    assert argv[argv.index("--topic") + 1] == "flights"


def test_console_tools_log_in_with_a_file_of_keys() -> None:
    for role in ("produce", "consume"):
        argv = command(["java"], role, "g", "127.0.0.1:1", ["flights"], "/keys")
        assert argv[argv.index("--command-config") + 1] == "/keys"
        assert "--command-config" not in command(["java"], role, "g", "127.0.0.1:1", ["flights"])
