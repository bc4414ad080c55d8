"""Which cluster stands by, and which producers and records there are those of clients."""

from __future__ import annotations

import pytest
from small_maps import TWO_RUNS, P, built

from drlib.client.history.entries import Past
from drlib.client.pointer import Pointer
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import DrillState
from drlib.drill.writers import rules
from drlib.drill.writers.rules import (
    Count,
    Counted,
    Standby,
    Writer,
    Written,
    is_client,
    not_of_the_flow,
    of_clients,
    own_records,
    served_since,
    standby_by_pointer,
    standby_by_state,
    unknown_producers,
    writers,
    written,
)
from drlib.kafka.net.requests import ProducerState
from drlib.kafka.protocol.batch import NO_PRODUCER
from drlib.mirror.journal.entries import SourceLoss, SourceTruncated, Thinned
from drlib.mirror.source_producers.leaders import Known
from drlib.model import Flow, Segment, TopicPartition

FLOW = Flow("paris", "lyon")
ORDERS = TopicPartition("orders", 0)


def pointer(version: int, active: str) -> Pointer:
    return Pointer(version, active, f"{active}:9092")


def past(version: int, active: str, written_ms: int) -> Past:
    return Past("*", pointer(version, active), written_ms)


def known(producer_id: int, *, epoch: int = 0, at: int = 0, last_ms: int = 100, name: str = "") -> Known:
    return Known(TopicPartition("orders", at), ProducerState(producer_id, epoch, 9, last_ms), name)


@pytest.mark.parametrize(
    ("written_ms", "history", "since"),
    [
        (50, [], 50),
        (0, [], 0),
        (50, [past(2, "lyon", 40), past(1, "paris", 30)], 50),
        (50, [past(1, "paris", 10), past(2, "paris", 30)], 10),
        (50, [past(2, "paris", 30), past(1, "lyon", 10), past(0, "paris", 5)], 30),
        (0, [past(2, "paris", 30)], 30),  # the newest one's time is not known
        (50, [past(3, "lyon", 20), past(4, "lyon", 20)], 50),  # none of them is earlier
    ],
)
def test_cluster_serves_since_the_first_of_the_pointers_in_a_row_that_name_it(
    written_ms: int, history: list[Past], since: int
) -> None:
    assert served_since(pointer(3, "paris"), written_ms, history) == since


@pytest.mark.parametrize(("active", "alias"), [("paris", "lyon"), ("lyon", "paris"), ("rome", "lyon")])
def test_the_other_cluster_than_the_pointer_names_stands_by(active: str, alias: str) -> None:
    assert standby_by_pointer(FLOW, active, 7) == Standby(alias, active, 7, f"the pointer names {active}")


def record(state: DrillState, since_ms: int) -> LeaseRecord:
    return LeaseRecord(state=state, run="r", since_ms=since_ms)


@pytest.mark.parametrize(
    ("there", "back", "alias"),
    [
        (record(DrillState.FAILED_OVER, 5), None, "paris"),
        (record(DrillState.READY, 5), None, "lyon"),
        (record(DrillState.READY, 5), record(DrillState.FAILED_OVER, 4), "lyon"),
        (record(DrillState.FAILED_OVER, 5), record(DrillState.READY, 6), "paris"),
        (record(DrillState.READY, 5), record(DrillState.FAILED_OVER, 6), "lyon"),  # lyon->paris moved to paris
        (LeaseRecord(), record(DrillState.READY, 6), "paris"),
    ],
)
def test_without_a_pointer_the_newer_state_of_both_flows_says_which_stands_by(
    there: LeaseRecord, back: LeaseRecord | None, alias: str
) -> None:
    found = standby_by_state(FLOW, there, back, copied_back=True)
    assert found is not None
    assert (found.alias, {found.alias, found.active}) == (alias, {"paris", "lyon"})
    assert found.since_ms == max(each.since_ms for each in (there, back) if each is not None)


def test_without_a_pointer_and_a_drill_the_target_of_one_direction_stands_by_and_of_two_none() -> None:
    found = standby_by_state(FLOW, LeaseRecord(), None, copied_back=False)
    assert found == Standby("lyon", "paris", 0, "paris->lyon copies to lyon alone, and no drill has moved it")
    assert standby_by_state(FLOW, LeaseRecord(), LeaseRecord(), copied_back=True) is None


def test_own_records_are_those_that_the_map_has_as_copied_and_the_rest_is_read() -> None:
    offsets = built(*TWO_RUNS)  # source 10..14, a marker at 15, 16..17
    assert own_records(offsets, 12, 18) == (Written(5), ())
    assert own_records(offsets, 12, 40) == (Written(5), ((18, 40),))
    assert own_records(offsets, 30, 40) == (Written(0), ((30, 40),))
    assert own_records(offsets, 40, 40) == (Written(0), ())
    assert own_records(None, 12, 40) == (Written(0), ((12, 40),))


def test_own_records_of_a_loss_are_read_where_they_are_still_there() -> None:
    offsets = built(*TWO_RUNS, SourceLoss(P, 18, 22, 1))
    assert own_records(offsets, 17, 22) == (Written(1), ((18, 22),))


def test_own_records_of_a_thinned_map_are_the_least_number() -> None:
    offsets = built(*TWO_RUNS)
    offsets.apply(Thinned(P, 18, 8, 7, (Segment(10, 1, 7),)))
    assert own_records(offsets, 12, 18) == (Written(5, at_least=True), ())


def test_own_records_of_a_map_in_doubt_are_read() -> None:
    offsets = built(*TWO_RUNS, SourceTruncated(P, 16, 18, 1))
    assert own_records(offsets, 12, 18) == (Written(0), ((12, 18),))


def test_parts_that_the_flow_did_not_write_are_between_its_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = built(*TWO_RUNS)  # on the target 1..7
    assert not_of_the_flow(offsets, 0, 12) == ((0, 1), (8, 12))
    assert not_of_the_flow(offsets, 2, 8) == ()
    assert not_of_the_flow(offsets, 8, 8) == ()
    assert not_of_the_flow(None, 0, 12) == ((0, 12),)
    monkeypatch.setattr(rules, "MOST_PARTS", 1)
    assert not_of_the_flow(offsets, 0, 12) == ((0, 12),), "what is not distinguished is one part"


def test_written_is_what_maps_have_and_what_was_read_and_the_least_where_some_was_not() -> None:
    read = [Counted({7: Count(3), NO_PRODUCER: Count(2)})]
    assert written([Written(5), Written(1)], read) == Written(11)
    assert written([], []) == Written(0)
    assert written([Written(5, at_least=True)], read) == Written(10, at_least=True)
    assert written([Written(5)], [Counted({}, unread=1)]) == Written(5, at_least=True)


def test_records_of_clients_are_those_of_no_claim() -> None:
    counted = Counted({7: Count(3), 8: Count(4), NO_PRODUCER: Count(2)}, unread=6)
    assert of_clients(counted, {8}) == Counted({7: Count(3), NO_PRODUCER: Count(2)}, unread=6)


@pytest.mark.parametrize(
    ("producer", "client"), [(known(7), True), (known(8), False), (known(7, name="drlib.tail.A->B"), False)]
)
def test_producer_is_a_client_unless_a_claim_or_drlib_has_it(producer: Known, client: bool) -> None:
    assert is_client(producer, {8}) is client


def test_producer_ids_that_no_known_claim_has_are_looked_for_again() -> None:
    counted = [Counted({9: Count(1), NO_PRODUCER: Count(2)})]
    assert unknown_producers([known(7), known(8)], counted, {8}) == {7, 9}
    assert unknown_producers([known(8)], [Counted({NO_PRODUCER: Count(2)})], {8}) == set()


def test_writers_have_partitions_epoch_time_name_and_records() -> None:
    seen = [known(7, at=0, last_ms=90, epoch=1), known(7, at=2, last_ms=95, epoch=2, name="shop"), known(8)]
    counted = {
        TopicPartition("orders", 1): Counted({7: Count(3, 99), 8: Count(50, 99)}),
        TopicPartition("orders", 2): Counted({7: Count(4, 80)}),
    }
    assert writers(seen, counted, {8}, 50) == (Writer("orders", 7, 2, (0, 1, 2), 7, 99, "shop"),)


def test_writer_without_an_id_is_known_by_its_records_alone() -> None:
    counted = {ORDERS: Counted({NO_PRODUCER: Count(3, 99)})}
    assert writers([], counted, (), 50) == (Writer("orders", NO_PRODUCER, -1, (0,), 3, 99),)
    without_time = writers([], {ORDERS: Counted({NO_PRODUCER: Count(3)})}, (), 50)
    assert without_time == (Writer("orders", NO_PRODUCER, -1, (0,), 3, -1),)


@pytest.mark.parametrize(("last_ms", "found"), [(49, False), (50, True), (-1, True)])
def test_writer_counts_from_when_the_cluster_stands_by_and_where_its_time_is_not_known(
    last_ms: int, found: bool
) -> None:
    assert [each.producer_id for each in writers([known(7, last_ms=last_ms)], {}, (), 50)] == [7] * found


def test_partition_that_a_writer_left_before_the_cluster_stood_by_is_not_named() -> None:
    (found,) = writers([known(7, at=0, last_ms=40), known(7, at=1, last_ms=60)], {}, (), 50)
    assert found.partitions == (1,)


def test_records_of_a_topic_of_which_some_was_not_read_are_the_least() -> None:
    counted = {ORDERS: Counted({7: Count(3, 99)}), TopicPartition("orders", 1): Counted({}, unread=9)}
    (found,) = writers([], counted, (), 50)
    assert (found.records, found.at_least) == (3, True)


def test_records_of_drlibs_own_producers_are_not_of_clients() -> None:
    counted = {ORDERS: Counted({7: Count(3, 99)})}
    assert writers([known(7, name="drlib.tail.paris->lyon")], counted, (), 50) == ()


def test_writers_come_newest_first() -> None:
    found = writers([known(7, last_ms=60), known(8, last_ms=70), known(9, last_ms=-1)], {}, (), 50)
    assert [each.producer_id for each in found] == [8, 7, 9]
