"""What a run does next: by the table of its journal, and killed anywhere with the same result.

`World` is what steps change: each step has two halves, and a half that is done or undone twice is reported. Every touch of
the world and of the journal is a tick, and a kill can come at any tick, before or after it took effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drlib.drill.plan.plan import Call, Danger, Drill, Expectation, Mode, Rollback, Step
from drlib.drill.plan.progress import (
    ROLLBACK,
    Accept,
    Act,
    AskApproval,
    CheckHypothesis,
    End,
    Next,
    Note,
    Noted,
    Outcome,
    Over,
    Probe,
    Reach,
    RunOutcome,
    Undo,
    closing_event,
    decide,
    destructive,
    may_abort,
    missing_approvals,
)
from drlib.drill.plan.states import DrillEvent
from drlib.model import Flow

N = Noted
LOOK = Step(name="look", title="Look", action=Call("look"), danger=Danger.NONE)
ONE = Step(name="one", title="One", action=Call("change"))
TWO = Step(name="two", title="Two", action=Call("change"))
LAST = Step(name="last", title="Last", action=Call("delete"), danger=Danger.DESTRUCTIVE, undoable=False)
DRILL = Drill(
    name="d",
    flow=Flow("A", "B"),
    mode=Mode.PLANNED,
    steps=(LOOK, ONE, TWO, LAST),
    hypothesis=(Expectation("holds", Call("holds")),),
)
BEGUN = (Note(N.RUN_STARTED), Note(N.HYPOTHESIS_HELD, detail="before"))


def started(step: str) -> tuple[Note, ...]:
    return (Note(N.STEP_STARTED, step),)


def did(*steps: str) -> tuple[Note, ...]:
    return tuple(note for step in steps for note in (*started(step), Note(N.STEP_SUCCEEDED, step)))


def failed(step: str) -> tuple[Note, ...]:
    return (*started(step), Note(N.STEP_FAILED, step))


def undid(*steps: str) -> tuple[Note, ...]:
    return tuple(note for s in steps for note in (Note(N.UNDO_STARTED, s), Note(N.UNDO_SUCCEEDED, s)))


def undo_failed(step: str) -> tuple[Note, ...]:
    return (Note(N.UNDO_STARTED, step), Note(N.UNDO_FAILED, step))


def probed(step: str, reach: Reach) -> tuple[Note, ...]:
    return (Note(N.PROBED, step, reach),)


ABORT = (Note(N.ABORT_REQUESTED),)
RESUMED = (Note(N.RUN_RESUMED),)
ROLLED = (Note(N.RUN_RESUMED, detail=ROLLBACK),)
ENDED = (Note(N.RUN_ENDED),)
DEV = Outcome.DEVIATED
LAST_FAILED = (*failed("last"), *probed("last", Reach.PARTLY))

CASES: list[tuple[tuple[Note, ...], Next]] = [
    ((), CheckHypothesis("before")),
    (BEGUN, Act("look")),
    ((*BEGUN, *did("look")), Act("one")),
    ((*BEGUN, *did("look"), *started("one")), Probe("one")),
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.DONE)), Accept("one")),
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.PARTLY)), Act("one", again=True)),
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.UNTOUCHED)), Act("one", again=True)),
    # what was seen before a resume may have moved since
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.UNTOUCHED), *RESUMED), Probe("one")),
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.PARTLY), *started("one")), Probe("one")),
    # an unknown step ends the run, and is looked at again when it is resumed
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.UNKNOWN)), End(RunOutcome(DEV, ("one",)))),
    ((*BEGUN, *did("look"), *started("one"), *probed("one", Reach.UNKNOWN), *ENDED, *RESUMED), Probe("one")),
    ((*BEGUN, *did("look", "one", "two", "last")), CheckHypothesis("after")),
    (
        (*BEGUN, *did("look", "one", "two", "last"), Note(N.HYPOTHESIS_HELD, detail="after")),
        End(RunOutcome(Outcome.PASSED, ("one", "two", "last"))),
    ),
    ((Note(N.HYPOTHESIS_FAILED, detail="before"),), End(RunOutcome(Outcome.HYPOTHESIS_FAILED))),
    # going back: the failed step is looked at, done ones are undone, in reverse order
    ((*BEGUN, *did("look", "one"), *failed("two")), Probe("two")),
    ((*BEGUN, *did("look", "one"), *failed("two"), *probed("two", Reach.PARTLY)), Undo("two")),
    ((*BEGUN, *did("look", "one"), *failed("two"), *probed("two", Reach.UNTOUCHED)), Undo("two", needed=False)),
    (
        (*BEGUN, *did("look", "one"), *failed("two"), *probed("two", Reach.UNKNOWN)),
        End(RunOutcome(DEV, ("one", "two"))),
    ),
    ((*BEGUN, *did("look", "one"), *failed("two"), *undid("two")), Undo("one")),
    ((*BEGUN, *did("look", "one"), *failed("two"), *undid("two", "one")), End(RunOutcome(DEV))),
    (
        (*BEGUN, *did("look", "one"), *failed("two"), *undid("two", "one"), *ENDED),
        Over(RunOutcome(DEV), resumable=False),
    ),
    # an undo that began and did not end
    ((*BEGUN, *did("look", "one"), *ABORT, Note(N.UNDO_STARTED, "one")), Probe("one")),
    ((*BEGUN, *did("look", "one"), *ABORT, Note(N.UNDO_STARTED, "one"), *RESUMED), Probe("one")),
    (
        (*BEGUN, *did("look", "one"), *ABORT, Note(N.UNDO_STARTED, "one"), *probed("one", Reach.UNTOUCHED)),
        Undo("one", needed=False),
    ),
    ((*BEGUN, *did("look", "one"), *ABORT, Note(N.UNDO_STARTED, "one"), *probed("one", Reach.DONE)), Undo("one")),
    # an error whose effect is there all the same: the answer was lost
    ((*BEGUN, *did("look", "one"), *failed("two"), *probed("two", Reach.DONE)), Accept("two")),
    (
        (*BEGUN, *did("look", "one"), *failed("two"), *probed("two", Reach.DONE), Note(N.STEP_SUCCEEDED, "two")),
        Act("last"),
    ),
    # an undo that failed ends the rollback, and resuming goes on with it
    ((*BEGUN, *did("look", "one", "two"), *ABORT, *undo_failed("two")), Probe("two")),
    (
        (*BEGUN, *did("look", "one", "two"), *ABORT, *undo_failed("two"), *probed("two", Reach.PARTLY)),
        End(RunOutcome(DEV, ("one", "two"))),
    ),
    (
        (*BEGUN, *did("look", "one", "two"), *ABORT, *undo_failed("two"), *probed("two", Reach.UNTOUCHED)),
        Undo("two", needed=False),
    ),
    (
        (
            *(*BEGUN, *did("look", "one", "two"), *ABORT, *undo_failed("two"), *probed("two", Reach.PARTLY)),
            *(*ENDED, *RESUMED),
        ),
        Probe("two"),
    ),
    # what cannot be undone stands, and is named
    ((*BEGUN, *did("look", "one", "two"), *LAST_FAILED), Undo("two")),
    ((*BEGUN, *did("look", "one", "two"), *LAST_FAILED, *undid("two", "one")), End(RunOutcome(DEV, ("last",)))),
    # aborts
    ((*BEGUN, *ABORT), End(RunOutcome(Outcome.ABORTED))),
    ((*BEGUN, *did("look"), *ABORT), End(RunOutcome(Outcome.ABORTED))),
    ((*BEGUN, *did("look"), *started("one"), *ABORT), Probe("one")),
    ((*BEGUN, *did("look", "one"), *ABORT), Undo("one")),
    ((*BEGUN, *did("look", "one"), *ABORT, *RESUMED), Undo("one")),
]


@pytest.mark.parametrize(("notes", "expected"), CASES)
def test_decide_next_thing_of_each_journal(notes: tuple[Note, ...], expected: Next) -> None:
    assert decide(DRILL, notes) == expected


STAYS = replace(DRILL, rollback=Rollback.NEVER)
FAILED = (*BEGUN, *did("look", "one"), *failed("two"))
STOPPED = (*FAILED, *probed("two", Reach.PARTLY))


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        (STOPPED, End(RunOutcome(DEV, ("one", "two")))),
        ((*STOPPED, *ENDED), Over(RunOutcome(DEV, ("one", "two")), resumable=True)),
        (FAILED, Probe("two")),
        ((*FAILED, *probed("two", Reach.UNTOUCHED)), End(RunOutcome(DEV, ("one",)))),
        ((*STOPPED, *RESUMED), Probe("two")),  # it had not ended: it still ends so
        ((*STOPPED, *RESUMED, *probed("two", Reach.PARTLY)), End(RunOutcome(DEV, ("one", "two")))),
        ((*STOPPED, *ENDED, *RESUMED), Probe("two")),  # it had: it goes on
        ((*STOPPED, *ENDED, *RESUMED, *probed("two", Reach.PARTLY)), Act("two", again=True)),
        ((*STOPPED, *ENDED, *ROLLED), Probe("two")),
        ((*STOPPED, *ENDED, *ROLLED, *probed("two", Reach.PARTLY)), Undo("two")),
        ((*STOPPED, *ENDED, *ROLLED, *undid("two", "one")), End(RunOutcome(DEV))),
        ((*BEGUN, *did("look", "one"), *ROLLED), Undo("one")),  # its process had died
        ((*BEGUN, *did("look", "one"), *ROLLED, *undid("one")), End(RunOutcome(Outcome.ABORTED))),
        ((*BEGUN, *did("look", "one"), *ABORT), End(RunOutcome(Outcome.ABORTED, ("one",)))),
        ((*BEGUN, *did("look", "one"), *ABORT, *ENDED, *RESUMED), Act("two")),
    ],
)
def test_decide_unfinished_run_is_resumed_or_rolled_back(notes: tuple[Note, ...], expected: Next) -> None:
    assert decide(STAYS, notes) == expected


@pytest.mark.parametrize("notes", [BEGUN, STOPPED, (*STOPPED, *ENDED), (*STOPPED, *ENDED, *RESUMED)])
def test_decide_superseded_run_is_over_and_not_resumable_wherever_it_stood(notes: tuple[Note, ...]) -> None:
    over = decide(STAYS, (*notes, Note(N.SUPERSEDED, detail="by night")))
    assert isinstance(over, Over)
    assert over.ending.outcome is Outcome.SUPERSEDED
    assert not over.resumable


U, P, D, H, A = None, Outcome.PASSED, Outcome.DEVIATED, Outcome.HYPOTHESIS_FAILED, Outcome.ABORTED
ALL_DONE = (*BEGUN, *did("look", "one", "two"), Note(N.HYPOTHESIS_HELD, detail="after"))
WITHOUT_LAST = replace(DRILL, steps=(LOOK, ONE, TWO))


@pytest.mark.parametrize(
    ("mode", "rollback", "passed", "deviated", "aborted"),
    [
        (Mode.PRACTICE, Rollback.DEFAULT, True, True, True),
        (Mode.PLANNED, Rollback.DEFAULT, False, True, True),
        (Mode.EMERGENCY, Rollback.DEFAULT, False, False, False),
        *((mode, Rollback.ALWAYS, True, True, True) for mode in Mode),
        *((mode, Rollback.NEVER, False, False, False) for mode in Mode),
        *((mode, Rollback.DEVIATED, False, True, False) for mode in Mode),
    ],
)
def test_rollback_due_by_strategy_and_mode(
    mode: Mode, rollback: Rollback, passed: bool, deviated: bool, aborted: bool
) -> None:
    drill = replace(WITHOUT_LAST, mode=mode, rollback=rollback)
    assert (decide(drill, ALL_DONE) == Undo("two")) is passed
    assert (decide(drill, STOPPED) == Undo("two")) is deviated
    assert (decide(drill, (*BEGUN, *did("look", "one"), *ABORT)) == Undo("one")) is aborted


@pytest.mark.parametrize(
    ("drill", "notes", "ending"),
    [
        (WITHOUT_LAST, (*ALL_DONE, *undid("two", "one")), RunOutcome(P)),
        (DRILL, (*ALL_DONE, *did("last"), *undid("two", "one")), RunOutcome(D, ("last",))),
        (DRILL, (*BEGUN, *did("look", "one", "two", "last"), *ABORT, *undid("two", "one")), RunOutcome(A, ("last",))),
    ],
)
def test_decide_after_rollback_a_passed_run_deviated_where_changes_stand(
    drill: Drill, notes: tuple[Note, ...], ending: RunOutcome
) -> None:
    assert decide(replace(drill, rollback=Rollback.ALWAYS), notes) == End(ending)


def test_decide_asks_for_approval_before_its_step() -> None:
    drill = replace(DRILL, steps=(LOOK, replace(ONE, approval=True), replace(TWO, approval=True)))
    assert decide(drill, (*BEGUN, *did("look"))) == AskApproval("one")
    assert decide(drill, (*BEGUN, *did("look"), Note(N.APPROVED, "two"))) == AskApproval("one")
    assert decide(drill, (*BEGUN, *did("look"), Note(N.APPROVED, "one"))) == Act("one")
    assert missing_approvals(drill, ()) == ("one", "two")
    assert missing_approvals(drill, {"one", "else"}) == ("two",)


def test_may_abort_is_false_during_rollback_and_after_the_end() -> None:
    assert may_abort(BEGUN)
    assert may_abort((*BEGUN, *started("one")))
    for notes in (STOPPED, (*BEGUN, *ABORT), (*ALL_DONE, Note(N.UNDO_STARTED, "two")), (*ALL_DONE, *ENDED)):
        assert not may_abort(notes)


@pytest.mark.parametrize(
    ("mode", "ending", "event"),
    [
        (Mode.PLANNED, RunOutcome(P, ("one",)), DrillEvent.SUCCEEDED),
        (Mode.PRACTICE, RunOutcome(P), DrillEvent.SUCCEEDED),
        (Mode.PLANNED, RunOutcome(P), DrillEvent.ROLLED_BACK),
        (Mode.PLANNED, RunOutcome(H), DrillEvent.ROLLED_BACK),
        (Mode.PLANNED, RunOutcome(D), DrillEvent.ROLLED_BACK),
        (Mode.PRACTICE, RunOutcome(D), DrillEvent.ROLLED_BACK),
        (Mode.PLANNED, RunOutcome(D, ("one",)), DrillEvent.FAILED),
        (Mode.PLANNED, RunOutcome(A), DrillEvent.ROLLED_BACK),
        (Mode.PLANNED, RunOutcome(A, ("one",)), DrillEvent.ABORT),
    ],
)
def test_closing_event_of_each_ending(mode: Mode, ending: RunOutcome, event: DrillEvent) -> None:
    assert closing_event(replace(DRILL, mode=mode), ending) is event


def test_closing_event_of_a_drill_without_changes_is_success() -> None:
    assert closing_event(replace(DRILL, steps=(LOOK,)), RunOutcome(P)) is DrillEvent.SUCCEEDED
    assert destructive(DRILL) == (LAST,)


# -- killed anywhere ---------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


class StepFailed(Exception):
    pass


@dataclass
class World:
    """Steps' halves, the journal, and a clock of ticks at which the process may die."""

    fails: tuple[str, int] | None = None  # a step that fails, before its first half, between them, or after both
    aborts: tuple[str, int] | None = None
    undo_fails: tuple[str, int] | None = None
    after_holds: bool = True
    halves: dict[str, list[bool]] = field(default_factory=lambda: {s.name: [False, False] for s in DRILL.steps})
    effects: list[tuple[str, int, bool]] = field(default_factory=list)
    abort: bool = False
    notes: list[Note] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)
    ticks: int = 0

    def tick(self) -> None:
        self.ticks += 1
        if self.ticks in self.kills:
            raise Killed

    def effect(self, what: Callable[[], None]) -> None:
        self.tick()
        what()
        self.tick()

    def note(self, event: Noted, step: str = "", detail: str = "") -> None:
        self.effect(lambda: self.notes.append(Note(event, step, detail)))

    def set_half(self, step: str, half: int, to: bool) -> None:
        assert self.halves[step][half] is not to, f"half {half} of {step} twice"
        self.halves[step][half] = to
        self.effects.append((step, half, to))

    def act(self, step: str) -> None:
        for half in (0, 1, 2):
            if (step, half) == self.aborts:
                self.effect(lambda: setattr(self, "abort", True))
                return
            if (step, half) == self.fails:
                raise StepFailed
            if half < 2 and not self.halves[step][half]:
                self.effect(lambda h=half: self.set_half(step, h, True))  # type: ignore[misc]

    def undo(self, step: str) -> None:
        for half in (1, 0, -1):
            if (step, 1 - half) == self.undo_fails:
                raise StepFailed
            if half >= 0 and self.halves[step][half]:
                self.effect(lambda h=half: self.set_half(step, h, False))  # type: ignore[misc]

    def reach(self, step: str) -> Reach:
        done = sum(self.halves[step])
        return (Reach.UNTOUCHED, Reach.PARTLY, Reach.DONE)[done]


def run(world: World, drill: Drill) -> RunOutcome:
    """One process: what a runner does with the answers of `decide`, until the run is over or it is killed."""
    world.note(N.RUN_RESUMED if world.notes else N.RUN_STARTED)
    while True:
        if world.abort and may_abort(world.notes):
            world.note(N.ABORT_REQUESTED)
        match decide(drill, world.notes):
            case CheckHypothesis(when):
                holds = when == "before" or world.after_holds
                world.note(N.HYPOTHESIS_HELD if holds else N.HYPOTHESIS_FAILED, detail=when)
            case Probe(step):
                world.note(N.PROBED, step, world.reach(step))
            case Accept(step):
                world.note(N.STEP_SUCCEEDED, step)
            case Act(step):
                world.note(N.STEP_STARTED, step)
                try:
                    world.act(step)
                except StepFailed:
                    world.note(N.STEP_FAILED, step)
                else:
                    if world.abort:
                        continue  # it was stopped, and is not reported as done
                    world.note(N.STEP_SUCCEEDED, step)
            case Undo(step, needed):
                if needed:
                    world.note(N.UNDO_STARTED, step)
                    try:
                        world.undo(step)
                    except StepFailed:
                        world.note(N.UNDO_FAILED, step)
                        continue
                world.note(N.UNDO_SUCCEEDED, step)
            case End():
                world.note(N.RUN_ENDED)
            case Over(ending):
                return ending
            case AskApproval(step):
                world.note(N.APPROVED, step)


def through(world: World, drill: Drill) -> RunOutcome:
    """Processes one after the other until one ends the run."""
    while True:
        try:
            return run(world, drill)
        except Killed:
            if world.notes and isinstance(decide(drill, world.notes), Over):
                return decide(drill, world.notes).ending  # type: ignore[union-attr]


SCENARIOS = [
    {},
    {"after_holds": False},
    *({"fails": (step, half)} for step in ("one", "two", "last") for half in range(3)),
    *({"aborts": (step, half)} for step in ("look", "one", "last") for half in range(2)),
    *({"fails": ("two", 1), "undo_fails": ("one", half)} for half in range(3)),
    *({"aborts": ("two", 1), "undo_fails": ("two", half)} for half in range(3)),
]
STRATEGIES = [
    (Mode.PRACTICE, Rollback.DEFAULT),
    (Mode.PLANNED, Rollback.DEFAULT),
    (Mode.EMERGENCY, Rollback.DEVIATED),
    (Mode.EMERGENCY, Rollback.NEVER),
]
CHANGING = ("one", "two", "last")


def outcome(world: World, ending: RunOutcome) -> object:
    """The result of a run: its outcome, what is changed, and every effect in its order."""
    return ending.outcome, ending.standing, world.halves, world.effects


def fresh(scenario: dict[str, object], kills: list[int]) -> World:
    return World(**scenario, kills=kills)  # type: ignore[arg-type]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_decide_killed_once_anywhere_ends_the_same(scenario: dict[str, object]) -> None:
    for mode, rollback in STRATEGIES:
        drill = replace(DRILL, mode=mode, rollback=rollback, steps=(LOOK, ONE, replace(TWO, approval=True), LAST))
        whole = fresh(scenario, [])
        expected = outcome(whole, through(whole, drill))
        for kill in range(1, whole.ticks + 1):
            world = fresh(scenario, [kill])
            assert outcome(world, through(world, drill)) == expected, (mode, rollback, kill, world.notes)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SCENARIOS), st.sampled_from(STRATEGIES), st.lists(st.integers(1, 8), max_size=12))
def test_decide_killed_repeatedly_ends_the_same(
    scenario: dict[str, object], strategy: tuple[Mode, Rollback], gaps: list[int]
) -> None:
    drill = replace(DRILL, mode=strategy[0], rollback=strategy[1])
    whole = fresh(scenario, [])
    expected = outcome(whole, through(whole, drill))
    world = fresh(scenario, list(itertools.accumulate(gaps)))
    assert outcome(world, through(world, drill)) == expected


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize(("mode", "rollback"), STRATEGIES)
def test_standing_names_exactly_the_steps_not_undone(
    scenario: dict[str, object], mode: Mode, rollback: Rollback
) -> None:
    world = fresh(scenario, [])
    ending = through(world, replace(DRILL, mode=mode, rollback=rollback))
    for step in CHANGING:
        if any(world.halves[step]):
            assert step in ending.standing
        if step in ending.standing and (step, 0) not in (world.fails, world.aborts):
            assert any(world.halves[step]) or world.undo_fails
