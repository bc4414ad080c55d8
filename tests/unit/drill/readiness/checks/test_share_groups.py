"""What readiness says of share groups."""

from __future__ import annotations

from drlib.drill.readiness.checks.objectives import CheckContext
from drlib.drill.readiness.checks.observations import ShareGroupSeen, SharesObserved
from drlib.drill.readiness.checks.share_groups import share_groups
from drlib.drill.readiness.score import Severity
from drlib.kafka.share_groups.names import EARLIEST, RESET

CONTEXT = CheckContext("mm2.properties", "left:9092", "right:9092")
SEEN = ShareGroupSeen("packers", 2, 0, 7, True, 99, {RESET: EARLIEST}, {RESET: EARLIEST})


def test_share_groups_none_or_all_carried_say_nothing() -> None:
    assert share_groups(SharesObserved(), "RIGHT", CONTEXT) == []
    assert share_groups(SharesObserved((SEEN,)), "RIGHT", CONTEXT) == []


def test_share_groups_acknowledged_records_without_cluster_action_are_a_warning_with_their_number() -> None:
    ((entity, severity, evidence, _),) = share_groups(SharesObserved((SEEN,), may_write=False), "RIGHT", CONTEXT)
    assert (entity, severity) == ("packers (share group)", Severity.WARN)
    assert "7 records that it acknowledged" in evidence
    assert "no ClusterAction on RIGHT" in evidence


def test_share_groups_unread_state_topic_and_refused_group_have_a_command() -> None:
    seen = SharesObserved((SEEN,), (("hidden", "not authorized"),), states_refused="not authorized")
    group, states = share_groups(seen, "RIGHT", CONTEXT)
    assert (group[1], states[1]) == (Severity.UNKNOWN, Severity.WARN)
    assert "--operation Describe --group hidden" in group[3]
    assert "--operation Read --topic __share_group_state" in states[3]


def test_share_groups_partition_of_which_nothing_is_known_is_unknown_with_what_helps() -> None:
    seen = SharesObserved((SEEN,), unread=(("packers", "no leader", "Start the broker."),))
    assert share_groups(seen, "RIGHT", CONTEXT) == [
        ("packers (share group)", Severity.UNKNOWN, "no leader", "Start the broker.")
    ]


def test_share_groups_other_settings_are_one_warning_with_the_command_that_copies_them() -> None:
    here = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.session.timeout.ms": "9",
    }
    there = {
        "share.auto.offset.reset": "latest",
        "share.isolation.level": "read_uncommitted",
        "share.session.timeout.ms": "9",
    }
    seen = SharesObserved((ShareGroupSeen("packers", 0, 2, 0, True, 99, here, there),))
    ((_, severity, evidence, fix),) = share_groups(seen, "RIGHT", CONTEXT)
    assert severity is Severity.WARN
    assert "share.auto.offset.reset is earliest on the source and latest on the target" in evidence
    assert "share.isolation.level decides whether records of open and aborted transactions are delivered" in evidence
    copied = "share.auto.offset.reset=earliest,share.isolation.level=read_committed"
    assert fix.endswith(f"--entity-type groups --entity-name packers --add-config {copied}")


def test_share_groups_setting_that_one_side_does_not_know_is_not_compared() -> None:
    newer = ShareGroupSeen("packers", 0, 2, 0, True, 99, {"share.delivery.count.limit": "5"}, {})
    assert share_groups(SharesObserved((newer,)), "RIGHT", CONTEXT) == []


def test_share_groups_target_that_does_not_know_them_is_one_warning() -> None:
    ((_, severity, evidence, _),) = share_groups(SharesObserved((SEEN,), supported=False), "RIGHT", CONTEXT)
    assert severity is Severity.WARN
    assert "the brokers of RIGHT do not know share groups" in evidence
