"""One event for each cause: what is one cause, what a group says, and how many are listed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.status.causes import MOST_OPEN, MOST_RESOLVED, NAMES, bounded, group_by_cause, subject, uncovered
from drlib.mirror.status.event_log import Event, EventLog, reason_of

AT = 1_700_000_000_000


def offline(number: int, **more: object) -> Event:
    name = f"orders-{number}"
    detail = f"{name} has no leader on the source; its next records wait there"
    return replace(Event("OfflinePartition", name, detail, AT + number, flow="A->B"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("orders-3", "orders-3 has no leader"), ("orders-4", "orders-4 has no leader")),
        (("orders-3", "orders-3 has no leader"), ("bills-4", "bills-4 has no leader")),
        (("orders-3", "at offset 17: too large"), ("orders-3", "at offset 2: too large")),
        (("A.orders-3", "mirror topic A.orders: no right"), ("A.b.c-0", "mirror topic A.b.c: no right")),
        (("orders-3", "A.orders-3 ended below."), ("bills-0", "A.bills-0 ended below.")),
        (("my group", "the group 'my group' is in use"), ("a/b", "the group 'a/b' is in use")),
        (("t-0", "broker 127.0.0.1:9092 refused"), ("t-1", "broker 127.0.0.1:9093 refused")),
    ],
)
def test_reason_of_same_cause_is_the_same_for_all_entities(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert reason_of(*one) == reason_of(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("orders-3", "orders-3 has no leader"), ("orders-4", "orders-4 has no replica")),
        (("orders-3", "refused: POLICY_VIOLATION (code 44)"), ("orders-3", "refused: INVALID_RECORD (code 87)")),
        (("order-1", "reordering"), ("order-1", "order-1")),
    ],
)
def test_reason_of_other_causes_differs(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert reason_of(*one) != reason_of(*other)


def test_group_by_cause_five_hundred_partitions_are_one_event_with_count_and_first_names() -> None:
    (event,) = group_by_cause(map(offline, range(500)))
    assert (event.count, event.entity, event.opened_ms) == (500, "orders-0", AT)
    assert event.entities == tuple(f"orders-{n}" for n in range(NAMES))
    assert event.concerns("orders-9")
    assert not event.concerns("orders-10")
    assert subject(event) == "orders-0, orders-1, orders-2 and 497 more"


def test_group_by_cause_single_event_is_itself() -> None:
    assert group_by_cause([offline(1)]) == (offline(1),)
    assert subject(offline(1)) == "orders-1"
    assert subject(group_by_cause([offline(1), offline(2)])[0]) == "orders-1, orders-2"


def test_group_by_cause_keeps_apart_names_flows_reasons_and_separate_times() -> None:
    early = [offline(n, opened_ms=AT, resolved_ms=AT + 1000) for n in (1, 2)]
    late = offline(1, opened_ms=AT + 5000, resolved_ms=AT + 6000)
    still = offline(3, opened_ms=AT + 9000)
    groups = group_by_cause([late, *early, still, replace(still, flow="A->C"), replace(still, name="Parked")])
    assert [(g.count, g.opened_ms - AT) for g in groups] == [(2, 0), (1, 5000), (1, 9000), (1, 9000), (1, 9000)]
    assert groups[0].resolved_ms == AT + 1000


def test_group_by_cause_open_events_are_settled_as_soon_as_one_is() -> None:
    (group,) = group_by_cause([offline(1), offline(2, settled=False), offline(3, settled=False)])
    assert (group.count, group.settled) == (3, True)
    (young,) = group_by_cause([offline(2, settled=False), offline(3, settled=False)])
    assert not young.settled


def test_group_by_cause_resolved_events_that_were_never_settled_are_a_group_of_their_own() -> None:
    groups = group_by_cause([offline(n, resolved_ms=AT + 900, settled=n > 1) for n in range(4)])
    assert sorted((g.count, g.settled) for g in groups) == [(2, False), (2, True)]


def test_group_by_cause_detail_that_changed_stays_in_its_group() -> None:
    log = EventLog("A->B", now=lambda: AT / 1000)
    for number in range(3):
        log.open("SourceUnreachable", f"x{number}", "connection refused")
    log.open("SourceUnreachable", "x1", "timed out")
    (event,) = group_by_cause(log.snapshot())
    assert event.count == 3


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60, unique=True), st.integers(1, 59))
def test_group_by_cause_of_groups_is_the_group_of_all(numbers: list[int], cut: int) -> None:
    events = [offline(n) for n in sorted(numbers)]
    halves = (*group_by_cause(events[:cut]), *group_by_cause(events[cut:]))
    assert group_by_cause(halves) == group_by_cause(events)


def test_bounded_lists_those_that_stop_records_first_and_counts_the_rest() -> None:
    minor = [Event("GroupLive", f"g{n}", f"cause {'x' * n}", AT + n) for n in range(MOST_OPEN)]
    grave = [Event("Parked", "orders-0", "why", AT + 10_000, count=7, entities=("orders-0", "orders-1"))]
    listed, omitted = bounded([*minor, *grave])
    assert len(listed) == MOST_OPEN
    assert grave[0] in listed
    assert omitted == 1
    _, omitted = bounded([*minor, *[replace(grave[0], name="GroupAhead", opened_ms=AT + 99_000)]])
    assert omitted == 7


def test_bounded_keeps_the_newest_resolved_events() -> None:
    gone = [Event("Parked", f"t-{n}", "x", AT, AT + n) for n in range(MOST_RESOLVED + 5)]
    listed, omitted = bounded(gone)
    assert [e.resolved_ms for e in listed] == [AT + n for n in range(5, MOST_RESOLVED + 5)]
    assert omitted == 0


def test_uncovered_event_of_an_entity_that_is_reported_or_may_be_among_those_not_listed_is_left_out() -> None:
    found = [offline(number) for number in range(NAMES + 3)]
    assert uncovered(found, []) == found
    assert uncovered(found, [found[1], found[4]]) == [e for e in found if e not in (found[1], found[4])]
    assert uncovered([*found, offline(99, name="Parked")], group_by_cause(found)) == [offline(99, name="Parked")]
    assert uncovered(found[:4], group_by_cause(found[:3])) == [found[3]]
