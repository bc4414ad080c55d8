"""What readiness says of share groups."""

from __future__ import annotations

from drlib.drill.readiness.checks.objectives import CheckContext
from drlib.drill.readiness.checks.observations import ShareGroupSeen, SharesObserved
from drlib.drill.readiness.checks.share_groups import share_groups
from drlib.drill.readiness.score import Severity

CONTEXT = CheckContext("mm2.properties", "left:9092", "right:9092")
SEEN = ShareGroupSeen("packers", 2, 0, 7, True, 99, "earliest", "earliest")


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


def test_share_groups_other_reset_policy_is_a_warning_with_the_command_that_copies_it() -> None:
    other = ShareGroupSeen("packers", 0, 2, 0, True, 99, "earliest", "latest")
    ((_, severity, evidence, fix),) = share_groups(SharesObserved((other,)), "RIGHT", CONTEXT)
    assert severity is Severity.WARN
    assert "is earliest on the source and latest on the target" in evidence
    assert "--entity-type groups --entity-name packers --add-config share.auto.offset.reset=earliest" in fix


def test_share_groups_target_that_does_not_know_them_is_one_warning() -> None:
    ((_, severity, evidence, _),) = share_groups(SharesObserved((SEEN,), supported=False), "RIGHT", CONTEXT)
    assert severity is Severity.WARN
    assert "the brokers of RIGHT do not know share groups" in evidence
