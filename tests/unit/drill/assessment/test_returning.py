"""The assessment before the way back: what is left to run by the flow's state, what stands in the way, and what comes next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.actions.failback.returned_rules import SeenSource, SeenTopic
from drlib.drill.actions.failover.triage_rules import Side
from drlib.drill.assessment.assessment import Next
from drlib.drill.assessment.returning import STAGES, ObservedReturn, Stage, TopicTail, assess_return
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import TABLE, DrillEvent, DrillState
from drlib.drill.session.unfinished_runs import UnfinishedRun, UnfinishedRuns
from drlib.mirror.offsets.unreplicated.crossed import TopicCrossed
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
SAME = SeenSource(FLOW, Side("paris", 1, 1), "id-1", "id-1", (SeenTopic("orders", True, 440),))
BOTH = (Stage.REPROTECT, Stage.FAIL_BACK)


def observed(state: DrillState | None = DrillState.FAILED_OVER, **more: object) -> ObservedReturn:
    """Paris is back as it failed, with unreplicated records, and `more` in place of parts of it."""
    plain = ObservedReturn(
        flow=FLOW,
        at_ms=1_000_000,
        file="mm2.properties",
        record=None if state is None else LeaseRecord(state=state, run="r1", since_ms=900_000),
        record_why="",
        pointer="lyon",
        seen=SAME,
        target=Side("lyon", 1, 1),
        tail=(TopicTail("orders", 40, 4000, 1, 2),),
        tail_why="",
        read_there={"billing": 10},
        workers=0,
        back_enabled=True,
        back_workers=1,
        back_missing=0,
        back_why="",
        unfinished=UnfinishedRuns(),
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def left(state: DrillState) -> UnfinishedRuns:
    commands = ("drlib run --resume /r", "drlib run --rollback /r", "--supersede r7")
    return UnfinishedRuns(
        (UnfinishedRun(str(FLOW), "r7", state.value, Mode.PLANNED, 1, "ops2", "/r", ("fence",), *commands),)
    )


def test_return_of_the_cluster_that_failed_begins_with_both_runbooks() -> None:
    made = assess_return(observed())
    assert (made.next, made.stages, made.settles, made.tail_records) == (Next.BEGIN, BOTH, True, 40)
    assert made.why.endswith("reprotect and fail-back follow")


def test_return_that_is_reprotected_only_moves_and_settles_nothing() -> None:
    made = assess_return(observed(DrillState.REPROTECTED, tail=None, tail_why="it was not asked", workers=None))
    assert (made.next, made.stages, made.settles) == (Next.BEGIN, (Stage.FAIL_BACK,), False)
    assert made.why.endswith("; fail-back follows")


@pytest.mark.parametrize("state", [DrillState.READY, DrillState.TESTED])
def test_return_is_done_where_the_source_serves(state: DrillState) -> None:
    made = assess_return(observed(state, pointer="paris"))
    assert (made.next, made.run) == (Next.NOTHING, "r1")
    assert "the pointer names paris" in made.why


def test_return_with_a_state_and_a_pointer_that_disagree_is_refused_with_how_to_declare_it() -> None:
    made = assess_return(observed(DrillState.READY, pointer="lyon"))
    assert made.next is Next.REFUSE
    assert "drlib runs settle mm2.properties --flow 'paris->lyon' --serves lyon" in made.remedy


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("state", [DrillState.FAILED_OVER, DrillState.REPROTECTED])
def test_return_after_people_moved_the_pointer_home_is_refused_before_anything_is_held(
    state: DrillState, both_ways: bool
) -> None:
    made = assess_return(observed(state, pointer="paris", both_ways=both_ways, workers=1))
    assert made.next is Next.REFUSE
    assert f"paris->lyon is {state}" in made.why
    assert made.why.endswith("but the pointer names paris")
    assert "drlib runs settle mm2.properties --flow 'paris->lyon' --serves paris" in made.remedy
    assert "drlib pointer move mm2.properties lyon" in made.remedy
    assert "Stop them" not in made.remedy


def test_return_that_was_left_is_refused_at_home_unless_it_moved_the_pointer_itself() -> None:
    for state in (DrillState.REPROTECTING, DrillState.REPROTECT_INCOMPLETE):
        for more in ({"folder_here": True}, {"supersede": "r7"}):
            made = assess_return(observed(state, pointer="paris", unfinished=left(state), **more))
            assert made.next is Next.REFUSE
            assert "--serves paris" in made.remedy
    for state in (DrillState.FAILING_BACK, DrillState.FAILBACK_INCOMPLETE):
        made = assess_return(observed(state, pointer="paris", unfinished=left(state), folder_here=True))
        assert made.next is Next.CONTINUE
        made = assess_return(observed(state, pointer="paris", unfinished=left(state), supersede="r7"))
        assert made.next is Next.BEGIN


@pytest.mark.parametrize("state", [DrillState.FAILBACK_INCOMPLETE, DrillState.REPROTECT_INCOMPLETE])
def test_return_whose_undo_was_refused_is_superseded_and_not_continued(state: DrillState) -> None:
    """A step after the move failed, and the applications are home: the run would repeat the undo of the move."""
    at = "paris" if state is DrillState.FAILBACK_INCOMPLETE else "lyon"
    (run,) = left(state).runs
    refused = UnfinishedRuns((replace(run, refused="go-home"),))
    made = assess_return(observed(state, pointer=at, unfinished=refused, folder_here=True, next_step="verify"))
    assert (made.next, made.run) == (Next.SUPERSEDE_FIRST, "r7")
    assert "the undo of step go-home of run r7 was refused" in made.why
    assert "--resume" not in made.remedy
    assert made.remedy.index("--supersede r7") < made.remedy.index("drlib run --rollback /r")
    assert assess_return(observed(state, pointer=at, unfinished=refused, supersede="r7")).next is Next.BEGIN
    for before in (DrillState.RUNNING, DrillState.INCOMPLETE):
        assert "--resume" not in assess_return(observed(before, unfinished=refused)).remedy


@pytest.mark.parametrize("state", [DrillState.RUNNING, DrillState.INCOMPLETE, DrillState.TESTING])
def test_return_before_the_failover_has_ended_names_that_run(state: DrillState) -> None:
    made = assess_return(observed(state, unfinished=left(state)))
    assert (made.next, made.run) == (Next.SUPERSEDE_FIRST, "r7")
    assert "drlib failover mm2.properties 'paris->lyon'" in made.remedy


@pytest.mark.parametrize(
    ("state", "stages", "after"),
    [
        (DrillState.REPROTECTING, BOTH, BOTH),
        (DrillState.REPROTECT_INCOMPLETE, BOTH, BOTH),
        (DrillState.FAILING_BACK, (Stage.FAIL_BACK,), (Stage.FAIL_BACK,)),
        (DrillState.FAILBACK_INCOMPLETE, (Stage.FAIL_BACK,), (Stage.FAIL_BACK,)),
    ],
)
def test_return_left_unfinished_continues_here_or_is_superseded_by_name(
    state: DrillState, stages: tuple[Stage, ...], after: tuple[Stage, ...]
) -> None:
    here = assess_return(observed(state, unfinished=left(state), folder_here=True, next_step="settle"))
    assert (here.next, here.stages, here.run) == (Next.CONTINUE, stages, "r7")
    assert "continues at step settle" in here.why
    elsewhere = assess_return(observed(state, unfinished=left(state)))
    assert elsewhere.next is Next.SUPERSEDE_FIRST
    assert "--supersede r7" in elsewhere.remedy
    given_up = assess_return(observed(state, unfinished=left(state), supersede="r7"))
    assert (given_up.next, given_up.stages) == (Next.BEGIN, after)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"seen": replace(SAME, side=Side("paris", silence="refused"))}, "paris is not what failed: no answer"),
        ({"seen": replace(SAME, cluster_id="id-2")}, "another cluster"),
        ({"target": Side("lyon", 1, 1, leaderless=2)}, "lyon does not serve"),
        ({"back_enabled": False}, "lyon->paris is not enabled in mm2.properties"),
        ({"workers": 2}, "2 workers mirror paris->lyon"),
        ({"tail": None, "tail_why": "open transactions"}, "is not known: open transactions"),
        ({"one_way": True}, "keeps the names of topics"),
    ],
)
def test_return_that_cannot_be_done_safely_is_refused_with_the_next_command(
    more: dict[str, object], words: str
) -> None:
    made = assess_return(observed(DrillState.FAILED_OVER, **more))
    assert made.next is Next.REFUSE
    assert words in made.why
    assert made.remedy


@pytest.mark.parametrize("state", [DrillState.FAILED_OVER, DrillState.REPROTECTED])
@pytest.mark.parametrize("unanswered", [False, True])
def test_return_whose_source_could_not_be_judged_says_why_and_does_not_call_it_silent(
    state: DrillState, unanswered: bool
) -> None:
    not_asked = SeenSource(FLOW, Side("paris", silence="it was not asked"))
    why = "lyon refuses to read the journal: no Read on the topic. Grant it."
    made = assess_return(observed(state, seen=not_asked, tail=None, source_why=why, unanswered=unanswered))
    assert (made.next, made.unreachable) == (Next.REFUSE, unanswered)
    assert made.why == f"whether paris is the cluster that failed, with its data, is not known: {why}"
    assert made.remedy == "Remove the cause, then the same command again."
    assert (made.found, made.found_why, made.source_state) == ("unknown", why, "not determined")


def test_return_where_the_target_does_not_say_for_another_reason_than_silence_is_no_silence() -> None:
    not_asked = SeenSource(FLOW, Side("paris", silence="it was not asked"))
    made = assess_return(observed(None, seen=not_asked, record_why="no Read", source_why="no Read"))
    assert (made.next, made.unreachable) == (Next.REFUSE, False)
    assert made.why == "lyon does not say where paris->lyon stands: no Read"


def test_return_after_a_planned_move_that_is_mirrored_names_the_planned_move_back() -> None:
    record = LeaseRecord(state=DrillState.FAILED_OVER, mode=Mode.PLANNED, run="r1")
    made = assess_return(observed(record=record, workers=1))
    assert made.next is Next.REFUSE
    assert "drlib run planned-switchover mm2.properties -p 'flow=lyon->paris'" in made.remedy


def test_return_of_topics_that_both_directions_copy_settles_nothing_while_workers_run() -> None:
    crossed = (TopicCrossed("orders", 40, 2),)
    made = assess_return(observed(workers=1, both_ways=True, tail=None, tail_why="it was not asked", crossed=crossed))
    assert (made.next, made.stages, made.settles, made.crossed) == (Next.BEGIN, BOTH, False, crossed)
    planned = LeaseRecord(state=DrillState.FAILED_OVER, mode=Mode.PLANNED, run="r1")
    assert assess_return(observed(record=planned, workers=1, both_ways=True)).next is Next.REFUSE
    other = replace(SAME, cluster_id="id-2")
    assert assess_return(observed(seen=other, workers=1, both_ways=True)).next is Next.REFUSE


def test_return_of_another_cluster_after_a_reprotect_is_judged_by_the_steps() -> None:
    gone = replace(SAME, side=Side("paris", silence="refused"))
    assert assess_return(observed(DrillState.REPROTECTED, seen=gone)).next is Next.REFUSE


def test_return_where_the_target_does_not_say_is_unreachable() -> None:
    made = assess_return(observed(None, target=Side("lyon", silence="refused"), record_why="refused"))
    assert (made.next, made.unreachable, made.state) == (Next.REFUSE, True, "unknown")


def test_stages_are_left_in_every_state_from_which_the_way_back_leads_home() -> None:
    commands = {DrillEvent.REPROTECT, DrillEvent.FAIL_BACK}
    begins = {state for state, moves in TABLE.items() if commands & set(moves)}
    assert begins <= set(STAGES)
    assert all(DrillEvent.RESUME in TABLE[state] for state in set(STAGES) - begins)
