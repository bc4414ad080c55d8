"""What a group saw of several clusters, from literal histories."""

from __future__ import annotations

from drlib.lab.checker.completeness import EXAMPLES, check_completeness
from drlib.lab.checker.history import Consumed, Produced, ProducedStatus


def sent(name: str, status: ProducedStatus = ProducedStatus.ACKED, cluster: str = "LEFT") -> Produced:
    return Produced(name, "k", 0, cluster, "TOPIC1", 0, 0, 1, 2, status)


def read(name: str, topic: str = "TOPIC1") -> Consumed:
    return Consumed("readers", "LEFT", topic, 0, 0, name, "k", 0, 3)


def test_completeness_every_record_once_is_complete() -> None:
    found = check_completeness([sent("1"), sent("2", cluster="RIGHT")], [read("1"), read("2", "RIGHT.TOPIC1")])
    assert found.complete
    assert found.by_topic == {"TOPIC1": 1, "RIGHT.TOPIC1": 1}


def test_completeness_counts_all_and_names_the_first() -> None:
    names = [str(number) for number in range(20)]
    found = check_completeness(map(sent, names), [read("0"), read("0"), read("0", "RIGHT.TOPIC1")])
    assert (found.missing_count, found.missing) == (19, tuple(names[1 : EXAMPLES + 1]))
    assert (found.doubled_count, found.doubled) == (1, ("0",))
    assert not found.complete
    twice = check_completeness([sent("1")], [read("1"), read("1")])
    assert (twice.doubled, twice.complete) == (("1",), False)


def test_completeness_record_in_doubt_is_optional_and_unsent_is_counted() -> None:
    doubt = sent("2", ProducedStatus.IN_DOUBT)
    assert check_completeness([sent("1"), doubt], [read("1")]).complete
    assert check_completeness([sent("1"), doubt], [read("1"), read("2")]).complete
    found = check_completeness([sent("1")], [read("1"), read("9")])
    assert (found.unsent_count, found.complete) == (1, False)


def test_completeness_nothing_due_is_not_complete() -> None:
    assert not check_completeness([], []).complete
