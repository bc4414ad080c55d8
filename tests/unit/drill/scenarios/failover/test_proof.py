"""What a group read again is weighed against what the mirror could have known of it."""

from __future__ import annotations

import pytest

from drlib.analysis.audit.result import PartitionAudit, conclude
from drlib.drill.scenarios.failover.proof import _copied, _weigh, uncrossed
from drlib.lab.checker.report import GroupReport
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind
from drlib.runs.check import Check, Verdict

NAME = "group orders reads nothing again"


def group(re_read: int | None, *last: tuple[int, int]) -> GroupReport:
    return GroupReport("orders", re_read, 0, 0, last, True, 0, "evidence")


def known(partition: int, offset: int, name: str = "orders") -> GroupTranslation:
    there = Translation(offset, TranslationKind.EXACT)
    source, target = TopicPartition("flights", partition), TopicPartition("LEFT.flights", partition)
    return GroupTranslation(name, source, offset, target, there, 0)


def test_uncrossed_counts_per_partition_and_group() -> None:
    positions = [known(0, 90), known(1, 200), known(0, 0, "other")]
    assert uncrossed(group(0, (0, 100), (1, 200)), positions) == 10
    assert uncrossed(group(0, (0, 100), (2, 7)), positions) == 17
    assert uncrossed(group(0, (1, 150)), positions) == 0


@pytest.mark.parametrize(
    ("re_read", "gap", "verdict"),
    [(10, 10, Verdict.CONDITIONS), (11, 10, Verdict.FAIL), (1, 0, Verdict.FAIL), (None, 10, Verdict.FAIL)],
)
def test_weigh_only_uncrossed_commits_are_a_condition(re_read: int | None, gap: int, verdict: Verdict) -> None:
    check = Check(name=NAME, verdict=Verdict.FAIL, evidence="evidence")
    weighed = _weigh(check, group(re_read), gap)
    assert weighed.verdict is verdict
    assert (weighed.name == NAME) is (verdict is Verdict.FAIL)  # "reads nothing again" is never what passes here


def test_weigh_other_checks_are_unchanged() -> None:
    for name, verdict in ((NAME, Verdict.PASS), ("group orders skips nothing", Verdict.FAIL)):
        check = Check(name=name, verdict=verdict, evidence="evidence")
        assert _weigh(check, group(3), 10) is check


@pytest.mark.parametrize(
    ("missing", "holes", "verdict", "said"),
    [
        (0, 0, Verdict.PASS, "all 100 records of LEFT are on RIGHT, unchanged"),
        (4, 0, Verdict.PASS, "4 of 100 are only on LEFT, all behind the last one that was mirrored"),
        (4, 1, Verdict.FAIL, "1 records missing on the target before the last mirrored record"),
    ],
)
def test_copied_says_what_is_only_on_the_source(missing: int, holes: int, verdict: Verdict, said: str) -> None:
    audit = conclude([PartitionAudit(0, 100, 100 - missing, missing, 0, 0, 0, 0, holes, 0, 0.1)])
    check = _copied("flights", audit, "LEFT", "RIGHT")
    assert (check.name, check.verdict) == ("Spark: flights is copied up to one point, without a fault", verdict)
    assert check.evidence.endswith(said)
