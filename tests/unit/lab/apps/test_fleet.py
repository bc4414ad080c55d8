"""Records that a producer refuses before it queues them."""

import pytest

from drlib.errors import Unreachable
from drlib.lab.apps.fleet import Fleet
from drlib.lab.apps.flights import Flight
from drlib.lab.checker.history import Produced, ProducedStatus

NOWHERE = "127.0.0.1:1"


def flight(size: int = 3) -> Flight:
    return Flight(0, "a", "UA1", 1, "UA", b"x" * size, 1)


def test_fleet_record_too_large_is_refused_and_no_later_one() -> None:
    rows: list[Produced] = []
    fleet = Fleet(NOWHERE, "LEFT", "flights", rows.append)
    assert fleet.send(flight(3 << 20))
    assert [row.status for row in rows] == [ProducedStatus.REFUSED]
    assert fleet.in_flight == 0
    assert fleet.send(flight())
    assert fleet.in_flight == 1
    fleet.give_up()


def test_fleet_whose_producer_takes_no_record_says_so_in_three_sentences() -> None:
    topic = "t" * 600  # longer than librdkafka takes, so that it refuses every record
    fleet = Fleet(NOWHERE, "LEFT", topic, lambda _: None)
    with pytest.raises(Unreachable, match=r"on LEFT: the producer refuses it: .*Read the broker's log"):
        fleet.send(flight())
    assert fleet.in_flight == 0
    fleet.give_up()
