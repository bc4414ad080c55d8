"""When a client of librdkafka counts as one that has lost its brokers for good."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from drlib.kafka.broker_states import BrokerStates, addresses

UP = '{"brokers":{"a:1/1":{"state":"UP"}},"cgrp":{"state":"up"}}'
DOWN = '{"brokers":{"a:1/1":{"state":"INIT"},"GroupCoordinator":{"state":"TRY_CONNECT"}},"cgrp":{"state":"up"}}'


@pytest.fixture
def address() -> Iterator[str]:
    """Of who accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def closed() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize(
    ("reports", "stranded"),
    [([], False), ([DOWN] * 5, False), ([DOWN] * 6, True), ([DOWN] * 5 + [UP] + [DOWN] * 5, False), ([UP] * 9, False)],
)
def test_client_is_stranded_after_half_a_minute_without_a_broker(
    address: str, reports: list[str], stranded: bool
) -> None:
    states = BrokerStates({"bootstrap.servers": address})
    for each in reports:
        states.reported(each)
    assert states.none_for_long is stranded
    assert states.stranded() is stranded
    assert not states.stranded(), "again only after another half a minute"


def test_client_of_a_cluster_that_accepts_no_connection_is_not_stranded(address: str) -> None:
    for servers, stranded in ((closed(), False), (f"{closed()},{address}", True)):
        states = BrokerStates({"bootstrap.servers": servers})
        for _ in range(6):
            states.reported(DOWN)
        assert states.none_for_long
        assert states.stranded() is stranded


@pytest.mark.parametrize(
    ("interval", "every", "enough"), [("", 5000, 6), (0, 5000, 6), ("1000", 1000, 30), (60_000, 60_000, 2)]
)
def test_application_that_reads_statistics_gets_them_as_before(interval: object, every: int, enough: int) -> None:
    read: list[str] = []
    states = BrokerStates({"statistics.interval.ms": interval, "stats_cb": read.append})
    assert states.settings["statistics.interval.ms"] == every
    for _ in range(enough):
        assert not states.none_for_long
        states.reported(DOWN)
    assert states.none_for_long
    assert read == [DOWN] * enough


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("a:9092", [("a", 9092)]),
        (" PLAINTEXT://a:1 , [::1]:2,SASL_SSL://b.c:65535", [("a", 1), ("::1", 2), ("b.c", 65535)]),
        ("", []),
        ("a,:9092,b:0,c:65536,d:x,e:\u0661", []),
    ],
)
def test_addresses_of_bootstrap_servers(servers: str, found: list[tuple[str, int]]) -> None:
    assert list(addresses(servers)) == found
