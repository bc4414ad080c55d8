"""Score, gate and ageing of readiness, and what each check makes of what was seen."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drlib
from drlib.drill.readiness.checks.checks import examine
from drlib.drill.readiness.checks.objectives import Terms
from drlib.drill.readiness.checks.observations import (
    Backlog,
    Beat,
    Copies,
    Drill,
    Drills,
    Durability,
    Expiring,
    Identity,
    Lack,
    Mirrored,
    Placed,
    Reach,
    Reader,
    Readers,
    Retained,
    Seen,
    Settings,
    There,
    Told,
    Unseen,
    Work,
    Workers,
)
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
from drlib.kafka.admin.descriptions import ConfigChange
from drlib.mirror.status.event_log import Event
from drlib.model import TopicPartition, TranslationKind

NOW = 1_795_255_200_000
FLOW = "LEFT->RIGHT"
TERMS = Terms("mm2.properties", "left:9092", "right:9092")
ORDERS = TopicPartition("orders", 0)
DOCS = Path(drlib.__file__).parent.parent / "docs" / "readiness.md"


def seen(**more: object) -> Seen:
    """A flow that has everything, with `more` in place of parts of it."""
    plain = Seen(
        flow=FLOW,
        at_ms=NOW,
        target=Reach("RIGHT", "right:9092", 3),
        source=Reach("LEFT", "left:9092", 3),
        identities=(Identity("LEFT", "a", "a"), Identity("RIGHT", "b", "b")),
        lacks=(),
        workers=Workers(Work.MIRRORING, 1, 2),
        told=Told((), True),
        backlog=Backlog(0, 0.0, "", NOW),
        retained=Retained((), {"orders": 7 * DAY_S * 1000}),
        beat=Beat(NOW - 900, 1),
        placed=(Placed("billing", ORDERS, 5, TranslationKind.EXACT, 0, NOW),),
        readers=Readers(1, ()),
        there=(There("billing", TopicPartition("LEFT.orders", 0), 5, 5, 9, False),),
        mirrored=(Mirrored("orders", "LEFT.orders", 1, 1),),
        settings=(Settings("orders", "LEFT.orders"),),
        durability=Durability(3, 3, (Copies("LEFT.orders", 3, 3, 0, 2),)),
        drills=Drills("runs", (Drill("r1", "failover-drill", "pass", NOW - 3 * DAY_S * 1000),)),
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def of(check: str, **more: object) -> Finding:
    """The one finding of `check`; every other check stays as it was."""
    found = examine(seen(**more), TERMS)
    (mine,) = [f for f in found.findings if f.check == check]
    return mine


# -- score, gate, age ---------------------------------------------------------------------------------------------

findings = st.lists(
    st.builds(
        Finding,
        check=st.sampled_from([check.id for check in CHECKS]),
        entity=st.sampled_from(["", "a", "b"]),
        verdict=st.sampled_from(list(Severity)),
        evidence=st.just("seen"),
        fix=st.just("do"),
        expires_ms=st.integers(NOW - 1000, NOW + 1000),
    ),
    max_size=30,
)
BETTER = {Severity.CRITICAL: 0, Severity.UNKNOWN: 1, Severity.WARN: 2, Severity.OK: 3}


def test_the_weights_are_a_whole_hundred_and_every_verdict_has_its_share() -> None:
    assert sum(check.weight for check in CHECKS) == 100
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert set(HALVES) == set(WORST_FIRST) == set(Severity)
    assert Readiness(FLOW, NOW, ()).score == 0


@given(findings, st.data())
def test_mending_a_finding_never_lowers_the_score_nor_closes_the_gate(
    found: list[Finding], data: st.DataObject
) -> None:
    if not found:
        return
    at = data.draw(st.integers(0, len(found) - 1))
    better = data.draw(st.sampled_from([v for v in Severity if BETTER[v] >= BETTER[found[at].verdict]]))
    before = Readiness(FLOW, NOW, tuple(found))
    after = Readiness(FLOW, NOW, (*found[:at], replace(found[at], verdict=better), *found[at + 1 :]))
    assert after.score >= before.score
    assert after.ready(MINIMUM) or not before.ready(MINIMUM)


@given(findings, st.data())
def test_not_knowing_never_scores_more_than_ok_and_costs_points(found: list[Finding], data: st.DataObject) -> None:
    check = data.draw(st.sampled_from(CHECKS))
    others = tuple(f for f in found if f.check != check.id)

    def with_verdict(verdict: Severity) -> int:
        return Readiness(FLOW, NOW, (*others, Finding(check.id, "", verdict, "", "", NOW))).score

    assert with_verdict(Severity.UNKNOWN) <= with_verdict(Severity.WARN) <= with_verdict(Severity.OK)
    assert with_verdict(Severity.UNKNOWN) == Readiness(FLOW, NOW, others).score
    assert with_verdict(Severity.OK) - with_verdict(Severity.UNKNOWN) == check.weight


@given(findings, st.integers(0, 2000), st.integers(0, 100))
def test_age_never_raises_a_score_nor_opens_a_gate(found: list[Finding], later: int, minimum: int) -> None:
    now = Readiness(FLOW, NOW, tuple(found))
    then = now.as_of(NOW + later)
    assert then.score <= now.score
    assert now.ready(minimum) or not then.ready(minimum)


@given(findings)
def test_what_is_shown_first_is_worst(found: list[Finding]) -> None:
    shown = [f.verdict for f in Readiness(FLOW, NOW, tuple(found)).worst_first()]
    assert shown == sorted(shown, key=WORST_FIRST.index)
    assert len(shown) == len(found)


def test_old_evidence_says_that_it_is_old_and_what_it_was() -> None:
    fresh = examine(seen(), TERMS)
    assert fresh.score == 100
    old = fresh.as_of(NOW + 61_000)
    assert old.verdict("worker") is Severity.UNKNOWN
    (worker,) = [f for f in old.findings if f.check == "worker"]
    assert worker.evidence.startswith("too old to be believed: 1 worker, 2 lanes")
    assert old.verdict("rights") is Severity.OK  # an hour
    assert old.verdict("drill-age") is Severity.OK  # until the next one is due


def test_the_gate_names_the_flow_the_reason_and_the_first_fix() -> None:
    gate([examine(seen(), TERMS)], 100)
    stopped = examine(seen(workers=Workers(Work.NONE, 0, 2)), TERMS)
    assert stopped.score == 90
    with pytest.raises(ReadinessError) as caught:
        gate([examine(seen(), TERMS), stopped], 80)
    assert str(caught.value).startswith("LEFT->RIGHT is not ready for a failover: score 90 of 100, critical: worker. ")
    assert "drlib mirror mm2.properties" in caught.value.remedy
    with pytest.raises(ReadinessError, match="score 97 of 100, 98 asked"):
        gate([examine(seen(drills=Unseen("runs cannot be read")), TERMS)], 98)


def test_in_an_emergency_only_what_the_target_needs_closes_the_gate() -> None:
    gone = Reach("LEFT", "l", 0, "LEFT is down", "Start it.")
    dead = seen(source=gone, workers=Workers(Work.NONE, 0, 2), backlog=Unseen("LEFT is down"))
    with pytest.raises(ReadinessError, match="source-answers"):
        gate([examine(dead, TERMS)], 80)
    gate_without_source(examine(dead, TERMS))
    nowhere = seen(source=gone, target=Reach("RIGHT", "r", 0, "RIGHT is down", "Start RIGHT."))
    with pytest.raises(ReadinessError, match=r"cannot be failed over.*target-answers RIGHT: RIGHT is down") as caught:
        gate_without_source(examine(nowhere, TERMS))
    assert caught.value.remedy == "Start RIGHT."


def test_a_question_without_an_answer_is_unknown_with_its_reason() -> None:
    lost = Unseen("no answer within 15 s", "Look at the link.")
    names = ("identities", "lacks", "workers", "told", "backlog", "retained", "beat", "placed", "readers", "there",
             "mirrored", "settings", "durability", "drills")  # fmt: skip
    nothing = examine(seen(**dict.fromkeys(names, lost)), TERMS)
    assert nothing.score == 13  # that both clusters answer
    unknown = [f for f in nothing.findings if f.verdict is Severity.UNKNOWN]
    assert len(unknown) == len(names)
    assert {(f.evidence, f.fix) for f in unknown} == {("no answer within 15 s", "Look at the link.")}


# -- checks -------------------------------------------------------------------------------------------------------


def copies(replicas: int = 3, in_sync: int = 3, leaderless: int = 0, minimum: int | None = 2) -> Durability:
    return Durability(3, 3, (Copies("LEFT.orders", replicas, in_sync, leaderless, minimum),))


def placed(kind: TranslationKind, records: int = 0) -> tuple[Placed, ...]:
    return (Placed("billing", ORDERS, 70, kind, records, NOW),)


def behind(left_s: float | None, warning: str = "", known: bool = True) -> Retained:
    return Retained((Expiring(ORDERS, left_s, "retention.ms", warning, known),), {"orders": 7 * DAY_S * 1000})


def drill(verdict: str, days: float) -> Drill:
    return Drill(f"r-{verdict}-{days:g}", "failover-drill", verdict, int(NOW - days * DAY_S * 1000))


CASES = [
    ("source-answers", {"source": Reach("LEFT", "l", 0, "LEFT cannot be reached: refused", "Start it.")}, "critical",
     "LEFT cannot be reached: refused, so nothing new", "Start it."),
    ("target-answers", {"target": Reach("RIGHT", "r", 0, "RIGHT is down", "Start it.")}, "critical", "nowhere", "Start"),
    ("cluster-ids", {"identities": (Identity("LEFT", "x", "a", "Correct it."),)}, "critical", "x and not a", "Correct"),
    ("cluster-ids", {"identities": (Identity("LEFT", "", "a"),)}, "unknown", "did not answer", "Bring it back"),
    ("cluster-ids", {"identities": (Identity("LEFT", "a", ""),)}, "ok", "pinned by the first claim", ""),
    ("rights", {"lacks": (Lack("", "we may not READ", "kafka-acls.sh --add"),)}, "critical", "READ", "kafka-acls.sh"),
    ("worker", {"workers": Workers(Work.NONE, 0, 2)}, "critical", "no member", "drlib mirror mm2.properties"),
    ("worker", {"workers": Workers(Work.INCOMPLETE, 1, 2, (1,))}, "critical", "nobody owns 1", "drlib mirror"),
    ("worker", {"workers": Workers(Work.UNKNOWN, 1, 2, (), ("h-1",))}, "unknown", "does not answer", "process"),
    ("worker", {"workers": Workers(Work.UNKNOWN, None, 2)}, "unknown", "nobody could say", "drlib mirror"),
    ("worker", {"workers": Workers(Work.STARTING, 1, 2)}, "warn", "starting", "Wait"),
    ("events", {"told": Told((Event("Parked", "orders-0", "too large", NOW, remedy="Raise it."),), True)}, "critical",
     "Parked: too large", "Raise it."),
    ("events", {"told": Told((Event("TargetSlow", "RIGHT", "for 5 s", NOW),), True)}, "warn", "TargetSlow", ""),
    ("events", {"told": Told((Event("NoWorker", FLOW, "", NOW),), True)}, "ok", "none", ""),
    ("events", {"told": Told((), False)}, "unknown", "not heard", "--metrics"),
    ("lag", {"backlog": Backlog(12, 0.2, "orders-0", NOW)}, "ok", "12 records not on the target", ""),
    ("lag", {"backlog": Backlog(12, 31.0, "orders-0", NOW)}, "critical", "oldest 31 s old", "drlib status"),
    ("lag", {"backlog": Backlog(10_001, 1.0, "orders-0", NOW)}, "critical", "at most 10,000 records", "widen"),
    ("lag", {"backlog": Backlog(12, None, "orders-0", NOW)}, "unknown", "of unknown age", ""),
    ("lag", {"backlog": Backlog(None, None, "", NOW)}, "unknown", "not known", "source"),
    ("lag", {"backlog": Backlog(0, 0.0, "", NOW - 61_000)}, "unknown", "too old to be believed", "Look again"),
    ("retention", {"retained": behind(40.0, "catching up takes longer")}, "critical", "catching up", "kafka-configs.sh"),
    ("retention", {"retained": behind(1800.0)}, "warn", "may go in 30 min by retention.ms", "retention.ms=1209600000"),
    ("retention", {"retained": behind(86_400.0)}, "ok", "may go in 24 h", ""),
    ("retention", {"retained": behind(None, known=False)}, "unknown", "could not be read", "Look again"),
    ("retention", {"retained": Retained((), {"orders": 60_000})}, "warn", "keeps records for 60 s", "retention.ms=7200000"),
    ("heartbeat", {"beat": Beat(NOW - 31_000, 1)}, "warn", "31 s old, one is due every 1 s", "drlib mirror"),
    ("heartbeat", {"beat": Beat(NOW - 31_000, 10)}, "ok", "31 s old", ""),
    ("heartbeat", {"beat": Beat(None, 1)}, "warn", "no heartbeat", "drlib mirror"),
    ("heartbeat", {"beat": Beat(None, 0)}, "ok", "switches heartbeats off", ""),
    ("groups-exact", {"placed": placed(TranslationKind.BEHIND, 9)}, "ok", "ahead of the mirror by 9 records in all", ""),
    ("groups-exact", {"placed": placed(TranslationKind.BEHIND, 10_001)}, "warn", "by 10,001 records: orders-0 at 70",
     "drlib translate mm2.properties --flow 'LEFT->RIGHT' --group billing"),
    ("groups-exact", {"placed": placed(TranslationKind.LOST, 3)}, "critical", "never reached the target: 3", "translate"),
    ("groups-exact", {"placed": placed(TranslationKind.UNKNOWN)}, "critical", "vouch", "translate"),
    ("groups-exact", {"placed": placed(TranslationKind.NEVER_MIRRORED)}, "warn", "before the first", "translate"),
    ("groups-exact", {"placed": ()}, "ok", "no group has a position", ""),
    ("groups-mirrored", {"readers": Readers(2, (Reader("books", ("a", "b", "c", "d")),))}, "warn",
     "it reads a, b, c and 1 more", "Add a, b, c to 'LEFT->RIGHT.topics' in mm2.properties"),
    ("groups-mirrored", {"readers": Readers(1, (), (("books", "refused"),))}, "unknown", "refused", "--group books"),
    ("groups-mirrored", {"readers": Readers(1, (), (), False)}, "unknown", "may be others", "Describe"),
    ("positions-ahead", {"there": (There("billing", TopicPartition("LEFT.orders", 0), 8, 5, 9, False),)}, "warn",
     "stands at 8, the source's position is 5 there: 3 ahead", "--reset-offsets --to-offset 5 --execute"),
    ("positions-ahead", {"there": (There("billing", TopicPartition("LEFT.orders", 0), 9, 9, 7, False),)}, "warn",
     "past the log's end 7", "--to-offset 9"),
    ("positions-ahead", {"there": (There("billing", TopicPartition("LEFT.orders", 0), 8, 5, 9, True),)}, "ok",
     "1 position of groups that are in use", ""),
    ("partitions", {"mirrored": (Mirrored("orders", "LEFT.orders", 3, None),)}, "critical", "no mirror topic", "drlib"),
    ("partitions", {"mirrored": (Mirrored("orders", "LEFT.orders", 3, 2),)}, "critical", "are not mirrored",
     "kafka-topics.sh --bootstrap-server right:9092 --alter --topic LEFT.orders --partitions 3"),
    ("partitions", {"mirrored": (Mirrored("orders", "LEFT.orders", 2, 3),)}, "warn", "other partitions",
     "kafka-topics.sh --bootstrap-server left:9092 --alter --topic orders --partitions 3"),
    ("topic-settings", {"settings": (Settings("orders", "LEFT.orders", (
        ConfigChange("cleanup.policy", "delete", "compact,delete"), ConfigChange("segment.bytes", "9", None))),)}, "warn",
     "cleanup.policy: delete -> compact,delete",
     "--add-config 'cleanup.policy=[compact,delete]' --delete-config segment.bytes"),
    ("topic-settings", {"settings": (Settings("orders", "LEFT.orders", error="refused"),)}, "unknown", "refused", "Grant"),
    ("durability", {"durability": copies(leaderless=1)}, "critical", "without a leader", "--describe"),
    ("durability", {"durability": copies(replicas=1, in_sync=1)}, "critical", "acks=all is refused",
     "min.insync.replicas=1"),
    ("durability", {"durability": copies(in_sync=1)}, "critical", "1 of 3 copies in sync", "--describe"),
    ("durability", {"durability": copies(in_sync=2)}, "warn", "2 of 3 copies in sync", "--describe"),
    ("durability", {"durability": copies(replicas=2, in_sync=2, minimum=1)}, "warn", "2 copies on 3 brokers, 3 asked",
     "kafka-reassign-partitions.sh"),
    ("durability", {"durability": copies(minimum=3)}, "warn", "one broker away stops producers", ""),
    ("durability", {"durability": copies(minimum=None)}, "unknown", "could not be read", "DescribeConfigs"),
    ("durability", {"durability": Durability(1, 1, (Copies("LEFT.orders", 1, 1, 0, 1),))}, "ok", "1 copy or more", ""),
    ("drill-age", {"drills": Drills("runs", ())}, "warn", "no drill is on record", "drlib run"),
    ("drill-age", {"drills": Drills("runs", (), ("a", "b"))}, "warn", "2 runs without a readable", "drlib run"),
    ("drill-age", {"drills": Drills("runs", (drill("pass", 31),))}, "warn", "31 d ago, one is due every 30 d", "drlib"),
    ("drill-age", {"drills": Drills("runs", (drill("fail", 1),))}, "warn", "no drill passed", "drlib run"),
    ("drill-age", {"drills": Drills("runs", (drill("fail", 1), drill("conditions", 5)))}, "warn", "ended with fail", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "more", "verdict", "evidence", "fix"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_check_says_what_was_seen_and_what_to_do(
    check: str, more: dict[str, object], verdict: str, evidence: str, fix: str
) -> None:
    found = of(check, **more)
    assert found.verdict == verdict, found
    assert evidence in found.evidence
    assert fix in found.fix
    assert examine(seen(**more), TERMS).score == 100 - (found.weight * (2 - HALVES[found.verdict]) + 1) // 2


def test_every_check_has_a_case_that_is_not_ok() -> None:
    assert {check for check, _, verdict, _, _ in CASES if verdict != "ok"} == {check.id for check in CHECKS}


def test_a_source_that_is_gone_is_told_once() -> None:
    gone = Reach("LEFT", "l", 0, "LEFT is down", "Start it.")
    told = Told((Event("SourceUnreachable", FLOW, "gone", NOW),), True)
    assert of("events", source=gone, told=told).verdict is Severity.OK
    assert of("events", told=told).verdict is Severity.WARN  # the worker alone does not reach it


def test_positions_as_old_as_the_last_checkpoint_are_not_believed_for_long() -> None:
    old = (Placed("billing", ORDERS, 5, TranslationKind.EXACT, 0, NOW - 120_000),)
    found = of("groups-exact", placed=old)
    assert (found.verdict, found.expires_ms) == (Severity.UNKNOWN, NOW - 60_000)


def test_the_page_shows_the_weights_that_count() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| (\d+) \| ([^|]+) \|", DOCS.read_text(encoding="utf-8"), re.M)
    spans = {60: "1 min", 300: "5 min", 3600: "1 h"}
    assert [(i, t, int(w), s) for i, t, w, s in rows] == [(c.id, c.title, c.weight, spans[c.lasts_s]) for c in CHECKS]
