"""Rings of flows that keep names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drlib.mirror.preflight.cycles import TopicLoop, find_cycle, refuse_cycles
from drlib.model import Flow


def flows(*names: str, chosen: str = "t") -> list[tuple[Flow, Callable[[str], bool]]]:
    return [(Flow(*name.split(">")), lambda topic: topic.startswith(chosen)) for name in names]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("A>B",), ()),
        (("A>B", "B>A"), ("A", "B", "A")),
        (("A>B", "B>C"), ()),
        (("A>B", "A>C", "B>C"), ()),
        (("A>B", "B>C", "C>A"), ("A", "B", "C", "A")),
        (("A>B", "B>C", "C>B"), ("B", "C", "B")),
    ],
)
def test_find_cycle_names_its_clusters(names: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert find_cycle(flows(*names), "t1") == found


def test_find_cycle_excluded_topics_are_no_cycle() -> None:
    both = [*flows("A>B", chosen="a"), *flows("B>A", chosen="b")]
    refuse_cycles(both, ["a1", "b1", "c"])
    with pytest.raises(TopicLoop, match=r"ab.*A -> B -> A.*do not overlap"):
        refuse_cycles([*flows("A>B", chosen="a"), *flows("B>A", chosen="ab")], ["a1", "ab"])


def test_heartbeats_are_prefixed_under_every_policy() -> None:
    assert find_cycle(flows("A>B", "B>A", chosen=""), "heartbeats") == ()
