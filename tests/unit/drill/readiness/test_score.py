"""Score, gate and ageing of readiness."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sample_observation import CONTEXT, FLOW, NOW, mirror, observation, translation

import drlib
from drlib.drill.readiness.checks.checks import judge_flow
from drlib.drill.readiness.checks.observations import ClusterAnswer, Unanswered
from drlib.drill.readiness.score import (
    CHECKS,
    DAY_S,
    HALVES,
    MINIMUM,
    WORST_FIRST,
    Finding,
    Readiness,
    Severity,
    gate,
    gate_without_source,
)
from drlib.errors import ReadinessError
from drlib.model import TranslationKind

DOCS = Path(drlib.__file__).parent.parent / "docs" / "readiness.md"

findings = st.lists(
    st.builds(
        Finding,
        check=st.sampled_from([check.id for check in CHECKS]),
        entity=st.sampled_from(["", "a", "b"]),
        severity=st.sampled_from(list(Severity)),
        evidence=st.just("seen"),
        fix=st.just("do"),
        expires_ms=st.integers(NOW - 1000, NOW + 1000),
    ),
    max_size=30,
)
BETTER = {Severity.CRITICAL: 0, Severity.UNKNOWN: 1, Severity.WARN: 2, Severity.ADVICE: 3, Severity.OK: 4}


def test_check_weights_sum_to_100_and_every_severity_has_a_share() -> None:
    assert sum(check.weight for check in CHECKS) == 100
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert set(HALVES) == set(WORST_FIRST) == set(Severity)
    assert Readiness(FLOW, NOW, ()).score == 0
    assert DAY_S == 24 * 60 * 60


@pytest.mark.parametrize(
    ("severity", "score"), [("ok", 100), ("advice", 100), ("warn", 95), ("unknown", 90), ("critical", 90)]
)
def test_score_counts_half_of_a_warning_and_nothing_of_what_is_worse(severity: str, score: int) -> None:
    found = (Finding(c.id, "", Severity(severity if c.id == "lag" else "ok"), "seen", "", NOW + 1) for c in CHECKS)
    assert Readiness(FLOW, NOW, tuple(found)).score == score


@given(findings, st.data())
def test_score_improved_finding_is_never_lower_and_gate_stays_open(found: list[Finding], data: st.DataObject) -> None:
    if not found:
        return
    at = data.draw(st.integers(0, len(found) - 1))
    better = data.draw(st.sampled_from([v for v in Severity if BETTER[v] >= BETTER[found[at].severity]]))
    before = Readiness(FLOW, NOW, tuple(found))
    after = Readiness(FLOW, NOW, (*found[:at], replace(found[at], severity=better), *found[at + 1 :]))
    assume(before.source_lost is after.source_lost)  # what counts is another question then
    assert after.score >= before.score
    assert after.ready(MINIMUM) or not before.ready(MINIMUM)


@given(findings, st.data())
def test_score_unknown_check_counts_nothing(found: list[Finding], data: st.DataObject) -> None:
    check = data.draw(st.sampled_from(CHECKS))
    others = tuple(f for f in found if f.check not in (check.id, "source-answers"))
    assume(check.id != "source-answers")

    def with_severity(severity: Severity) -> int:
        return Readiness(FLOW, NOW, (*others, Finding(check.id, "", severity, "", "", NOW))).score

    assert with_severity(Severity.UNKNOWN) <= with_severity(Severity.WARN) <= with_severity(Severity.OK)
    assert with_severity(Severity.UNKNOWN) == Readiness(FLOW, NOW, others).score
    assert with_severity(Severity.OK) - with_severity(Severity.UNKNOWN) == check.weight


@given(findings, st.integers(0, 2000), st.integers(0, 100))
def test_as_of_later_never_raises_score_nor_opens_gate(found: list[Finding], later: int, minimum: int) -> None:
    now = Readiness(FLOW, NOW, tuple(found))
    then = now.as_of(NOW + later)
    assert then.score <= now.score
    assert now.ready(minimum) or not then.ready(minimum)


def test_ready_by_default_with_two_heavy_checks_unknown_and_no_more() -> None:
    heavy = [check.id for check in CHECKS if check.weight == 10]
    for unknown, ready in ((heavy[:2], True), ([*heavy[:2], "heartbeat"], False)):
        found = tuple(
            Finding(check.id, "", Severity.UNKNOWN if check.id in unknown else Severity.OK, "seen", "", NOW + 1)
            for check in CHECKS
        )
        assert Readiness(FLOW, NOW, found).ready(MINIMUM) is ready


def test_severity_of_a_check_is_its_worst_finding() -> None:
    found = [Finding("lag", "", severity, "seen", "do", NOW + 1) for severity in Severity]
    for number, worst in enumerate(WORST_FIRST):
        left = tuple(f for f in found if f.severity in WORST_FIRST[number:])
        assert Readiness(FLOW, NOW, left).severity("lag") is worst
        assert Readiness(FLOW, NOW, left[::-1]).severity("lag") is worst


@given(findings)
def test_worst_first_orders_findings_by_severity(found: list[Finding]) -> None:
    shown = [f.severity for f in Readiness(FLOW, NOW, tuple(found)).worst_first()]
    assert shown == sorted(shown, key=WORST_FIRST.index)
    assert len(shown) == len(found)


def test_as_of_expired_evidence_is_unknown_and_quotes_old_evidence() -> None:
    fresh = judge_flow(observation(), CONTEXT)
    assert fresh.score == 100
    old = fresh.as_of(NOW + 61_000)
    assert old.severity("worker") is Severity.UNKNOWN
    (worker,) = [f for f in old.findings if f.check == "worker"]
    assert worker.evidence.startswith("expired evidence: 1 worker, 2 lanes")
    assert old.severity("rights") is Severity.OK  # an hour
    assert fresh.as_of(NOW + 59_999).severity("worker") is Severity.OK
    assert fresh.as_of(NOW + 60_000).severity("worker") is Severity.UNKNOWN
    assert old.severity("drill-age") is Severity.OK  # until the next one is due


def test_gate_refusal_names_flow_reason_and_first_fix() -> None:
    gate([judge_flow(observation(), CONTEXT)], 100)
    stopped = judge_flow(observation(mirror=mirror("no worker", members=0, answered=0)), CONTEXT)
    assert stopped.score == 90
    with pytest.raises(ReadinessError) as caught:
        gate([judge_flow(observation(), CONTEXT), stopped], 80)
    why = "score 90 of 100, critical: worker (the flow's group has no member: nothing is mirrored)"
    assert str(caught.value).startswith(f"LEFT->RIGHT is not ready for a failover: {why}. ")
    assert "drlib mirror mm2.properties" in caught.value.remedy
    with pytest.raises(ReadinessError, match="score 90 of 100, critical: worker"):
        gate([stopped], 90)
    with pytest.raises(ReadinessError, match="score 90 of 100, 91 required, critical: worker"):
        gate([stopped], 91)
    with pytest.raises(ReadinessError, match="score 97 of 100, 98 required"):
        gate([judge_flow(observation(drills=Unanswered("runs cannot be read")), CONTEXT)], 98)


def test_gate_without_source_is_closed_by_target_checks_only() -> None:
    gone = ClusterAnswer("LEFT", "l", 0, "LEFT is down", "Start it.")
    stopped = mirror("no worker", members=0, answered=0, source_error="LEFT is down")
    dead = observation(source=gone, mirror=stopped)
    with pytest.raises(ReadinessError, match="source-answers"):
        gate([judge_flow(dead, CONTEXT)], 80)
    gate_without_source(judge_flow(dead, CONTEXT))
    nowhere = observation(source=gone, target=ClusterAnswer("RIGHT", "r", 0, "RIGHT is down", "Start RIGHT."))
    with pytest.raises(ReadinessError, match=r"cannot be failed over.*target-answers RIGHT: RIGHT is down") as caught:
        gate_without_source(judge_flow(nowhere, CONTEXT))
    assert caught.value.remedy == "Start RIGHT."


@pytest.mark.parametrize(("records", "expired", "by_day"), [(4900, 4900, Severity.WARN), (3, 0, Severity.CRITICAL)])
def test_records_that_a_group_does_not_find_on_the_target_close_no_gate_of_an_emergency(
    records: int, expired: int, by_day: Severity
) -> None:
    """They are not there, whether the applications move or wait. By day, what never arrived is still to be copied."""
    behind = (translation(TranslationKind.LOST, records, expired),)
    whole = judge_flow(observation(translations=behind), CONTEXT)
    assert (whole.severity("groups-exact"), whole.ready(MINIMUM)) == (by_day, by_day is Severity.WARN)
    gone = ClusterAnswer("LEFT", "l", 0, "LEFT is down", "Start it.")
    lost = judge_flow(observation(source=gone, translations=behind), CONTEXT)
    gate_without_source(lost)
    assert [f.entity for f in lost.findings if f.check == "groups-exact" and f.severity is Severity.WARN] == ["billing"]
    unknown = judge_flow(observation(source=gone, translations=(translation(TranslationKind.UNKNOWN),)), CONTEXT)
    with pytest.raises(ReadinessError, match="groups-exact billing: 1 position without a known counterpart"):
        gate_without_source(unknown)


def test_score_with_a_lost_source_is_that_of_the_target_and_names_what_is_open() -> None:
    gone, unasked = (
        ClusterAnswer("LEFT", "l", 0, "LEFT is down", "Start it."),
        Unanswered("LEFT does not answer", "Restore it."),
    )
    dead = observation(
        source=gone,
        retention_ms=unasked,
        readers=unasked,
        topics=unasked,
        settings=unasked,
        mirror=mirror(source_error="down"),
    )
    lost = judge_flow(dead, CONTEXT)
    assert (lost.score, lost.source_lost, lost.emergency) == (100, True, ())
    assert set(lost.not_determined) >= {"retention", "groups-mirrored", "partitions", "topic-settings", "lag"}
    assert not lost.ready(0)  # a lost source is still a critical finding
    with pytest.raises(ReadinessError, match=r"emergency failover is open, the target scores 100 of 100"):
        gate([lost], MINIMUM)
    worse = judge_flow(replace(dead, translations=Unanswered("no answer")), CONTEXT)
    assert worse.score == 100 * (41 - 10) // 41  # what the target leaves open is a lack of readiness
    assert all(f.fix for f in lost.findings if f.severity is not Severity.OK)
    assert lost.worst_first()[0].check == "source-answers"


def test_lost_source_does_not_age_what_was_last_known_of_it() -> None:
    gone = ClusterAnswer("LEFT", "l", 0, "LEFT is down", "Start it.")
    old = observation(source=gone, translations=(replace(observation().translations[0], as_of_ms=NOW - 300_000),))  # type: ignore[index]
    (exact,) = [f for f in judge_flow(old, CONTEXT).findings if f.check == "groups-exact"]
    assert exact.severity is Severity.OK
    assert exact.evidence.endswith("all exact, as last known 5 min ago")
    (aged,) = [
        f for f in judge_flow(replace(old, source=observation().source), CONTEXT).findings if f.check == "groups-exact"
    ]
    assert aged.severity is Severity.UNKNOWN


def test_docs_table_lists_checks_weights_and_lifetimes() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| (\d+) \| ([^|]+) \|", DOCS.read_text(encoding="utf-8"), re.M)
    spans = {60: "1 min", 300: "5 min", 3600: "1 h"}
    assert [(i, t, int(w), s) for i, t, w, s in rows] == [(c.id, c.title, c.weight, spans[c.lasts_s]) for c in CHECKS]
