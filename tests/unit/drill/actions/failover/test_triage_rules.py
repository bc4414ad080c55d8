"""Should one fail over at all: a table of what is seen and what is said."""

from uuid import UUID

import pytest

from drlib.drill.actions.failover.triage_rules import Expected, Side, advise, side_of
from drlib.drill.witness.evidence import Answer, Finding, Place, View, judge
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.kafka.security.errors import CANNOT_USE, Fault, fault

DEAD = Side("LEFT", silence="connection refused")
WELL = Side("LEFT", 3, 1)
LAME = Side("LEFT", 2, 1, leaderless=4)
HALF = Side("LEFT", 3, 1, leaderless=4, silent_brokers=2)
UNWRITABLE = Side("LEFT", 3, 1, not_writable=2)
UNCOORDINATED = Side("LEFT", 3, 1, without_coordinator=2, coordinators=4)
TARGET = Side("RIGHT", 3, 2)
IN_PART = Side("RIGHT", 2, 1, leaderless=1, led=2, named=("LEFT.alone-2",))
GONE, SERVING = Expected.GONE, Expected.SERVING


@pytest.mark.parametrize(
    ("source", "target", "expected", "both", "reason", "go", "message"),
    [
        (DEAD, TARGET, GONE, (), "", True, "no answer: connection refused"),
        (LAME, TARGET, GONE, (), "", True, "4 partitions without a leader"),
        (HALF, TARGET, GONE, (), "", True, "3 brokers, 2 of them silent"),
        (UNWRITABLE, TARGET, GONE, (), "", True, "2 partitions below min.insync.replicas"),
        (UNCOORDINATED, TARGET, GONE, (), "", True, "no coordinator for groups in 2 of 4 partitions"),
        (UNCOORDINATED, TARGET, SERVING, (), "", False, "a planned move needs"),
        (WELL, Side("RIGHT", 3, 1, not_writable=1), GONE, (), "", False, "RIGHT cannot take over"),
        (WELL, TARGET, GONE, (), "", False, "LEFT answers: 3 brokers"),
        (WELL, TARGET, GONE, (), "its site burns", True, "forced, 'its site burns'"),
        (WELL, TARGET, SERVING, (), "", True, "RIGHT serves"),
        (DEAD, TARGET, SERVING, (), "", False, "a planned move needs"),
        (WELL, TARGET, SERVING, ("orders",), "", False, "both sides are written to: orders"),
        (LAME, TARGET, GONE, ("orders",), "", False, "both sides are written to: orders"),
        (WELL, TARGET, SERVING, ("orders",), "known", True, "although both sides are written to"),
        (DEAD, Side("RIGHT", silence="no answer"), GONE, (), "it must be", False, "RIGHT cannot take over"),
        (DEAD, Side("RIGHT", 3, 1, leaderless=1), GONE, (), "it must be", False, "RIGHT cannot take over"),
        (
            DEAD,
            Side("RIGHT", 3, 1, without_coordinator=4, coordinators=4),
            GONE,
            (),
            "it must be",
            False,
            "no coordinator",
        ),
        (DEAD, IN_PART, GONE, (), "", False, "without a leader that answers (LEFT.alone-2)"),
        (DEAD, IN_PART, GONE, (), "it burns", True, "forced, 'it burns', although RIGHT cannot take over in full"),
        (WELL, IN_PART, SERVING, (), "it burns", False, "RIGHT cannot take over"),
        (WELL, IN_PART, GONE, (), "", False, "(LEFT.alone-2); and LEFT answers: 3 brokers"),
    ],
)
def test_advise_gives_decision_reason_and_remedy(
    source: Side, target: Side, expected: Expected, both: tuple[str, ...], reason: str, go: bool, message: str
) -> None:
    advice = advise(source, target, expected, both, reason)
    assert advice.go is go
    assert message in advice.why
    assert bool(advice.remedy) is not go


def test_advise_of_a_source_that_serves_names_a_planned_move_of_the_flow_without_an_approval_it_may_not_take() -> None:
    assert "drlib run planned-switchover FILE -p 'flow=LEFT->RIGHT'. Or" in advise(WELL, TARGET, GONE).remedy
    assert "--approve" not in advise(WELL, TARGET, GONE).remedy


def seen(*views: View, settled: bool = True) -> Finding:
    return Finding(judge(views), views, 60.0, settled)


HERE = View(Place.HERE, "", Answer.SILENT, Answer.SERVES)
MIRROR_REACHES = View(Place.MIRROR, "m:1", Answer.SERVES, Answer.SERVES)
MIRROR_DOES_NOT = View(Place.MIRROR, "m:1", Answer.SILENT, Answer.SERVES, 61.0)


def test_advise_source_that_others_reach_is_a_cut_network_and_no_reason_to_fail_over() -> None:
    advice = advise(DEAD, TARGET, GONE, seen=seen(HERE, MIRROR_REACHES))
    assert not advice.go
    assert "the mirror's worker m:1: answers" in advice.why
    assert "network is cut" in advice.why
    assert advise(DEAD, TARGET, GONE, (), "burns", seen(HERE, MIRROR_REACHES)).go


def test_advise_source_that_comes_and_goes_waits_and_one_that_nobody_reaches_does_not() -> None:
    assert "comes and goes" in advise(DEAD, TARGET, GONE, seen=seen(HERE, settled=False)).why
    advice = advise(DEAD, TARGET, GONE, seen=seen(HERE, MIRROR_DOES_NOT))
    assert advice.go
    assert "the mirror's worker m:1: no answer for 61 s" in advice.why


@pytest.mark.parametrize(
    ("places", "go"),
    [
        ((), False),
        ((MIRROR_REACHES,), False),
        ((MIRROR_DOES_NOT,), True),
        ((MIRROR_DOES_NOT, View(Place.WITNESS, "w:1", Answer.SERVES, Answer.SERVES)), False),
    ],
)
def test_advise_source_that_this_host_cannot_use_is_gone_only_where_others_find_it_gone(
    places: tuple[View, ...], go: bool
) -> None:
    here = View(Place.HERE, "", Answer.UNKNOWN, Answer.SERVES)
    refusing = Side("LEFT", silence="this host cannot use it: its certificate has expired", refused=True)
    advice = advise(refusing, TARGET, GONE, seen=seen(here, *places))
    assert advice.go is go
    assert "certificate has expired" in advice.why
    assert advise(refusing, TARGET, GONE, (), "expired everywhere", seen(here, *places)).go
    assert not advise(refusing, TARGET, GONE).go


def brokers(*silent: int, refused: tuple[int, ...] = ()) -> ClusterService:
    """Three brokers; the first partition is led by the first, and so on."""
    listed = {node: Broker(node, "h", node) for node in (1, 2, 3)}
    rows = {n: PartitionMetadata(n, n + 1, 0, (1, 2, 3), (1, 2, 3), 0) for n in range(3)}
    topic = TopicMetadata("orders", UUID(int=1), 0, rows, False)
    faults = {node: fault(Fault.UNKNOWN_CA, f"h:{node}") for node in refused}
    why = {node: f"h:{node}: no answer" for node in silent} | {
        node: f"h:{node}: {CANNOT_USE}: {error.why}" for node, error in faults.items()
    }
    return ClusterService(ClusterMetadata("id", 1, listed, {"orders": topic}), why, {"orders": 1}, faults)


def test_advise_source_of_which_brokers_refuse_this_host_is_no_reason_to_fail_over() -> None:
    """As while the brokers' certificates are renewed one after the other, by an authority that is not trusted here yet."""
    source = side_of("LEFT", brokers(refused=(2, 3)), ["orders"])
    advice = advise(source, TARGET, GONE)
    assert not advice.go
    assert "not issued by an authority that drlib trusts" in advice.why
    assert advice.remedy.startswith("Correct that.")
    assert advise(source, TARGET, GONE, (), "it burns").go
    planned = advise(source, TARGET, SERVING)
    assert (planned.go, planned.remedy) == (False, "Correct that, then run it again.")
    assert advise(TARGET, side_of("RIGHT", brokers(refused=(2,)), ["orders"]), GONE).remedy.startswith(
        "Correct that first"
    )


def test_advise_source_that_lost_brokers_beside_those_that_refuse_this_host_is_lost() -> None:
    assert advise(side_of("LEFT", brokers(3, refused=(2,)), ["orders"]), TARGET, GONE).go


def test_advise_planned_move_from_a_source_that_refuses_this_host_suggests_no_failover() -> None:
    refusing = Side("LEFT", silence="this host cannot use it: wrong password", refused=True)
    assert advise(refusing, TARGET, SERVING).remedy == "Correct that, then run it again."
    assert "fail over" in advise(DEAD, TARGET, SERVING).remedy


def test_advise_target_without_a_leader_for_a_partition_names_both_ways_on() -> None:
    assert advise(DEAD, IN_PART, GONE).remedy.startswith("Restore RIGHT first, or give force_reason")


def test_side_without_answer_has_no_broker_and_no_controller() -> None:
    assert (DEAD.brokers, DEAD.controller, DEAD.leaderless, DEAD.serves) == (0, -1, 0, False)
