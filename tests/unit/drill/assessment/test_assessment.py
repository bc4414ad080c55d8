"""The assessment before a failover: what is known, what is not and why, and what comes next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_observation import (
    CONTEXT,
    NOW,
    behind,
    durability,
    mirror,
    observation,
    on_target,
    producer_topics,
    translation,
)

from drlib.drill.actions.failover.triage_rules import Side
from drlib.drill.assessment.assessment import Assessment, Continues, Gate, Next, Observed, assess
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillState
from drlib.drill.readiness.checks.checks import judge_flow
from drlib.drill.readiness.checks.observations import ClusterAnswer, FlowObservation, Unanswered
from drlib.drill.session.unfinished_runs import UnfinishedRun, UnfinishedRuns
from drlib.drill.witness.evidence import Answer, Finding, Place, View, judge
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.status.event_log import Event
from drlib.model import Flow, TranslationKind

DEAD = Side("LEFT", silence="refused")
SERVES = Side("RIGHT", 3, 1)
SILENT = Event("SourceUnreachable", "LEFT", "refused", NOW - 90_000)


def observed(seen: FlowObservation | None = None, **more: object) -> Observed:
    """The source is dead and the target is ready, with `more` in place of parts of it."""
    lost = ClusterAnswer("LEFT", "left:9092", 0, "LEFT is down", "Start it.")
    seen = seen or observation(source=lost, mirror=mirror(events=(SILENT,), partitions=(behind(4, 2.0),)))
    plain = Observed(
        flow=Flow("LEFT", "RIGHT"),
        at_ms=NOW,
        host="ops1",
        source=DEAD,
        target=SERVES,
        observation=seen,
        readiness=judge_flow(seen, CONTEXT),
        record=LeaseRecord(),
        pointer="LEFT",
        unfinished=UnfinishedRuns(),
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def run(mode: Mode = Mode.EMERGENCY, state: str = "incomplete") -> UnfinishedRuns:
    commands = ("drlib run --resume /r", "drlib run --rollback /r", "--supersede r7")
    return UnfinishedRuns(
        (UnfinishedRun("LEFT->RIGHT", "r7", state, mode, NOW, "ops2", "/r", ("translate",), *commands),)
    )


def lost_source(**changes: object) -> FlowObservation:
    return observation(source=ClusterAnswer("LEFT", "left:9092", 0, "LEFT is down", "Start it."), **changes)


def test_assessment_of_a_dead_source_and_a_ready_target_begins_and_says_what_it_costs() -> None:
    made = assess(observed())
    assert made.next is Next.BEGIN
    assert made.gate is Gate.OPEN
    assert (made.loss.records, made.loss.as_of_ms) == (4, NOW)
    assert "accepted after" in made.loss.why
    assert [(each.seen_from, each.since_ms) for each in made.unreachable] == [
        ("this host (ops1)", None),
        ("the mirror's workers", NOW - 90_000),
    ]
    assert [(g.group, g.continues, g.re_reads) for g in made.groups] == [("billing", Continues.EXACTLY, 0)]
    assert made.missing_topics == ()


@pytest.mark.parametrize(
    ("kind", "records", "continues", "re_reads", "words"),
    [
        (TranslationKind.BEHIND, 12, Continues.READS_AGAIN, 12, ""),
        (TranslationKind.BOUNDED, 3, Continues.READS_AGAIN, 3, ""),
        (TranslationKind.LOST, 5, Continues.EXACTLY, 0, "5 records that it had not read"),
        (TranslationKind.UNKNOWN, 0, Continues.UNKNOWN, None, "1 positions cannot be translated, such as orders-0"),
    ],
)
def test_group_of_each_kind_of_translation_continues_as_it_says(
    kind: TranslationKind, records: int, continues: Continues, re_reads: int | None, words: str
) -> None:
    (group,) = assess(observed(lost_source(translations=(translation(kind, records),)))).groups
    assert (group.continues, group.re_reads) == (continues, re_reads)
    assert words in group.detail


@pytest.mark.parametrize(
    ("records", "expired", "words"),
    [
        (4900, 4900, "4,900 records that it had not read expired on the target"),
        (5, 0, "5 records that it had not read did not reach the target"),
        (7, 4, "4 records that it had not read expired on the target; 3 records that it had not read did not reach it"),
    ],
)
def test_group_whose_records_are_missing_is_named_and_forbids_no_failover(
    records: int, expired: int, words: str
) -> None:
    """What expired on both sides, or never crossed, is not on the target however long it is waited for."""
    made = assess(observed(lost_source(translations=(translation(TranslationKind.LOST, records, expired),))))
    assert (made.next, made.gate) == (Next.BEGIN, Gate.OPEN)
    assert made.groups[0].detail == words


def test_group_without_a_known_counterpart_closes_the_gate_of_an_emergency() -> None:
    made = assess(observed(lost_source(translations=(translation(TranslationKind.UNKNOWN),))))
    assert (made.next, made.gate) == (Next.REFUSE, Gate.CLOSED)
    assert "without a known counterpart" in made.why


def test_group_with_members_on_the_target_is_said_to_be_left_there() -> None:
    used = on_target(5, 5, 9, in_use=True)
    (group,) = assess(observed(lost_source(target_positions=(used,)))).groups
    assert (group.continues, group.re_reads) == (Continues.UNKNOWN, None)
    assert group.detail == "it has members on RIGHT, and is left as it is there"


def test_group_whose_position_is_further_ahead_on_the_target_is_said_to_be_left_there() -> None:
    """As the step that moves positions decides, before anything is changed."""
    ahead = on_target(8, 5, 9)
    (group,) = assess(observed(lost_source(target_positions=(ahead,)))).groups
    assert (group.continues, group.re_reads) == (Continues.UNKNOWN, None)
    said = (
        "LEFT.orders-0 on RIGHT: it is at 8 there, further ahead: the group was used there; it is left as it is there"
    )
    assert group.detail == said
    for fine in (
        replace(ahead, markers_only=True),
        replace(ahead, read_on=True),
        on_target(5, 5, 9),
        on_target(3, 5, 9),
    ):
        (group,) = assess(observed(lost_source(target_positions=(fine,)))).groups
        assert (group.continues, group.detail) == (Continues.EXACTLY, "")


def test_what_was_not_answered_is_unknown_with_its_reason_and_never_nothing() -> None:
    nothing = Unanswered("no answer in time")
    made = assess(observed(lost_source(mirror=nothing, translations=nothing, producer_topics=nothing), record=None))
    assert made.loss.records is None
    assert "no answer in time" in made.loss.why
    assert (made.groups, made.groups_unknown) == ((), "no answer in time")
    assert (made.missing_topics, made.missing_topics_unknown) == ((), "no answer in time")


def test_log_ends_that_no_worker_knows_leave_the_loss_unknown() -> None:
    made = assess(observed(lost_source(mirror=mirror(answered=0, partitions=(behind(None, None),)))))
    assert made.loss.records is None
    assert "no worker that answers knows" in made.loss.why
    assert made.unreachable[1].detail == "unknown: no worker answers"


def test_topics_that_producers_write_to_and_that_the_target_lacks_are_named() -> None:
    assert assess(observed(lost_source(producer_topics=producer_topics(None)))).missing_topics == ("orders",)


def test_source_that_serves_is_advised_against_and_a_reason_overrules_it() -> None:
    healthy = observation(mirror=mirror(partitions=(behind(0, 0.0),)))
    serving = observed(healthy, source=Side("LEFT", 3, 1))
    made = assess(serving)
    assert (made.next, made.unreachable) == (Next.REFUSE, ())
    assert "planned switchover" in made.remedy
    assert made.loss.why == "as LEFT says now"
    assert assess(replace(serving, force_reason="fire")).next is Next.BEGIN


def test_target_that_does_not_serve_is_refused_whatever_the_reason() -> None:
    made = assess(observed(target=Side("RIGHT", 3, 1, leaderless=2), force_reason="fire"))
    assert made.next is Next.REFUSE
    assert "cannot take over" in made.why


def test_closed_gate_of_a_dead_source_is_refused_and_a_reason_overrules_it() -> None:
    closed = observed(lost_source(durability=durability(leaderless=1)))
    made = assess(closed)
    assert (made.gate, made.next) == (Gate.CLOSED, Next.REFUSE)
    assert made.gate_why
    assert made.why.startswith("the readiness gate is closed")
    forced = assess(replace(closed, force_reason="fire"))
    assert forced.next is Next.BEGIN
    assert forced.why.startswith("forced, 'fire'")


def unfinished(**more: object) -> Assessment:
    return assess(observed(**{"unfinished": run(), **more}))  # type: ignore[arg-type]


def test_unfinished_failover_of_this_machine_is_continued_at_its_step_whatever_the_source_does() -> None:
    made = unfinished(folder_here=True, next_step="move", source=Side("LEFT", 3, 1))
    assert (made.next, made.run, made.next_step) == (Next.CONTINUE, "r7", "move")
    assert "continues at step move" in made.why


def test_unfinished_failover_whose_undo_was_refused_is_superseded_and_not_continued() -> None:
    (left,) = run().runs
    for mode in Mode:
        refused = UnfinishedRuns((replace(left, mode=mode, refused="move"),))
        made = unfinished(unfinished=refused, folder_here=True, next_step="verify")
        assert (made.next, made.run) == (Next.SUPERSEDE_FIRST, "r7")
        assert "the undo of step move of run r7 was refused" in made.why
        assert "--resume" not in made.remedy
        assert made.remedy.index("--supersede r7") < made.remedy.index("drlib run --rollback /r")
        assert unfinished(unfinished=refused, folder_here=True, supersede="r7").next is Next.BEGIN


def test_unfinished_run_elsewhere_or_of_another_mode_has_to_be_superseded_by_name() -> None:
    elsewhere = unfinished()
    assert elsewhere.next is Next.SUPERSEDE_FIRST
    for words in ("/r on ops2",):
        assert words in elsewhere.why
    for words in ("drlib run --resume /r", "--supersede r7", "its changes stay (translate)"):
        assert words in elsewhere.remedy
    rehearsal = unfinished(unfinished=run(Mode.PRACTICE), folder_here=True)
    assert rehearsal.next is Next.SUPERSEDE_FIRST
    assert unfinished(supersede="r7").next is Next.BEGIN
    assert unfinished(supersede="r8").next is Next.SUPERSEDE_FIRST


@pytest.mark.parametrize(
    ("state", "pointer", "comes"),
    [
        (DrillState.FAILED_OVER, "RIGHT", Next.NOTHING),
        (DrillState.REPROTECTED, "RIGHT", Next.NOTHING),
        (DrillState.FAILED_OVER, "THIRD", Next.NOTHING),  # a pointer of another flow is left
        (DrillState.FAILED_OVER, "LEFT", Next.BEGIN),  # the applications went home since
        (DrillState.FAILED_OVER, None, Next.BEGIN),
        (DrillState.TESTED, "RIGHT", Next.BEGIN),
    ],
)
def test_failover_that_is_done_is_not_done_again(state: DrillState, pointer: str | None, comes: Next) -> None:
    made = assess(observed(record=LeaseRecord(state=state, run="r3", since_ms=NOW), pointer=pointer))
    assert made.next is comes
    assert (made.run == "r3") is (comes is Next.NOTHING)


def test_assessment_of_a_flow_that_mirror_maker_mirrors_bounds_re_reads_and_says_why_the_loss_is_unknown() -> None:
    stands = MirrorMakerFlow(("checkpoints (3)",), NOW - 5000, source_seen_ms=NOW - 7000, checkpoints=3)
    status = mirror(
        "mirrored by MirrorMaker 2", members=0, answered=0, partitions=(behind(None, None),), mirror_maker=stands
    )
    bounded = replace(translation(TranslationKind.BOUNDED, 12), as_of_ms=NOW - 30_000)
    made = assess(observed(lost_source(mirror=status, translations=(bounded,))))
    assert (made.next, made.gate) == (Next.BEGIN, Gate.OPEN)
    assert made.loss.records is None
    assert "mirrored by MirrorMaker 2, which does not keep where the logs of LEFT ended" in made.loss.why
    (_, by_mirror) = made.unreachable
    assert by_mirror.seen_from == "MirrorMaker 2"
    assert "the last heartbeat that it mirrored is of" in by_mirror.detail
    assert "its last heartbeat is 5.0 s old" in by_mirror.detail
    (group,) = made.groups
    assert bounded.translation.offset is not None
    assert (group.continues, group.re_reads) == (Continues.READS_AGAIN, 12)
    assert group.detail == f"with that at most {100 - bounded.translation.offset} records"


def test_assessment_without_any_checkpoint_keeps_the_gate_closed_and_says_what_to_do() -> None:
    status = mirror("mirrored by MirrorMaker 2", members=0, answered=0, mirror_maker=MirrorMakerFlow(("heartbeats",)))
    made = assess(observed(lost_source(mirror=status, translations=())))
    assert (made.next, made.gate) == (Next.REFUSE, Gate.CLOSED)
    assert "no position of any group is known" in made.why
    assert assess(observed(lost_source(mirror=status, translations=()), force_reason="producers first")).next is (
        Next.BEGIN
    )


def test_source_that_the_mirror_reaches_is_cut_off_and_failing_over_is_advised_against() -> None:
    views = (
        View(Place.HERE, "", Answer.SILENT, Answer.SERVES, 5.0),
        View(Place.MIRROR, "m:1", Answer.SERVES, Answer.SERVES),
        View(Place.WITNESS, "w:1", Answer.SILENT, Answer.SERVES, 60.0),
    )
    healthy = observation(mirror=mirror(partitions=(behind(0, 0.0),)))
    plain = replace(observed(healthy), seen=Finding(judge(views), views))
    made = assess(plain)
    assert made.next is Next.REFUSE
    assert "the network is cut, not the cluster" in made.why
    assert [(each.seen_from, each.detail) for each in made.unreachable[1:]] == [
        ("the witness w:1", "no answer there"),
        ("the mirror's workers", "it answers there"),
    ]
    assert assess(replace(plain, force_reason="it burns")).next is Next.BEGIN
