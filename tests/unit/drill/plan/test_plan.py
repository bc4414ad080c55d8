"""Plans: what their hash stands for, that they come back as they were, and when they are stale."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.drill.plan.plan import (
    Argument,
    Call,
    Change,
    ChangedFact,
    Danger,
    Drill,
    Expectation,
    Fact,
    Mode,
    Plan,
    Rollback,
    Step,
    StepPlan,
    Value,
    canonical,
    contradictions,
    parse,
)
from drlib.drill.plan.staleness import stale
from drlib.drill.plan.states import DrillEvent
from drlib.model import Flow
from drlib.runs.scorecard import Objectives

CREATE = Step(name="create", title="Create the topic", action=Call("topic.create", (Argument("topic", "orders"),)))
MOVE = Step(name="move", title="Move the group", action=Call("group.move", (Argument("positions", ("0:5", "1:7")),)))
DRILL = Drill(
    name="failover",
    flow=Flow("LEFT", "RIGHT"),
    mode=Mode.PLANNED,
    steps=(CREATE, MOVE),
    hypothesis=(Expectation("The mirror keeps up", Call("lag.below", (Argument("records", 10),))),),
    objectives=Objectives(rto_seconds=60),
)
PLAN = Plan(
    DRILL,
    (
        StepPlan("create", (Fact("partitions of orders", None),), (Change("partitions of orders", None, 6),)),
        StepPlan("move", (Fact("arrivals at orders-0", 3), Fact("id", "x")), (Change("arrivals at orders-0", 3, 5),)),
    ),
)


def with_drill(**changes: object) -> Plan:
    return Plan(replace(DRILL, **changes), PLAN.steps)  # type: ignore[arg-type]


def with_steps(*, create: Step = CREATE, move: Step = MOVE) -> Plan:
    return with_drill(steps=(create, move))


def with_move(**changes: object) -> Plan:
    return Plan(DRILL, (PLAN.steps[0], replace(PLAN.steps[1], **changes)))  # type: ignore[arg-type]


DIFFERENT = {
    "name": with_drill(name="other"),
    "flow": with_drill(flow=Flow("RIGHT", "LEFT")),
    "mode": with_drill(mode=Mode.EMERGENCY),
    "activity": with_drill(activity=DrillEvent.FAIL_BACK),
    "rollback": with_drill(rollback=Rollback.ALWAYS),
    "objective": with_drill(objectives=Objectives(rto_seconds=61)),
    "no objective": with_drill(objectives=Objectives()),
    "hypothesis": with_drill(hypothesis=()),
    "title": with_steps(create=replace(CREATE, title="Create it")),
    "danger": with_steps(move=replace(MOVE, danger=Danger.DESTRUCTIVE)),
    "approval": with_steps(move=replace(MOVE, approval=True)),
    "undo": with_steps(move=replace(MOVE, undoable=False)),
    "action": with_steps(create=replace(CREATE, action=Call("topic.make", CREATE.action.arguments))),
    "argument": with_steps(create=replace(CREATE, action=Call("topic.create", (Argument("topic", "order"),)))),
    "type of an argument": with_steps(create=replace(CREATE, action=Call("topic.create", (Argument("topic", 1),)))),
    "observed": with_move(observed=(Fact("arrivals at orders-0", 4), Fact("id", "x"))),
    "observed less": with_move(observed=(Fact("id", "x"),)),
    "change": with_move(changes=(Change("arrivals at orders-0", 3, 6),)),
    "no change": with_move(changes=()),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_plan_hash_depends_on_every_part(what: str) -> None:
    assert DIFFERENT[what].hash != PLAN.hash


def test_plan_hash_differs_between_plans() -> None:
    assert len({plan.hash for plan in DIFFERENT.values()}) == len(DIFFERENT)


def test_plan_hash_ignores_order_of_facts_and_number_notation() -> None:
    assert with_move(observed=tuple(reversed(PLAN.steps[1].observed))) == PLAN
    assert with_drill(objectives=Objectives(rto_seconds=60.0)).hash == PLAN.hash


def test_plan_hash_is_stable_across_processes_and_releases() -> None:
    assert PLAN.hash == "f835fc9f415b74c12164031295ff8d40414eb3ba6e65687712749602e6b9cfa0"


def test_plan_text_has_letters_of_all_languages_as_they_are() -> None:
    """Approvals given by earlier releases are to this text's hash."""
    plan = with_drill(name="Übung")
    assert '"name":"Übung"' in canonical(plan)
    assert parse(canonical(plan)) == plan


NAMES = st.text(min_size=1, max_size=8)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
ARGUMENTS = st.lists(
    st.builds(
        Argument,
        NAMES,
        st.booleans()
        | st.integers(-(1 << 63), (1 << 63) - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
        | st.lists(st.text()).map(tuple),
    )
).map(tuple)


@given(
    arguments=ARGUMENTS,
    facts=st.dictionaries(NAMES, VALUES, max_size=5),
    changes=st.dictionaries(NAMES, st.tuples(VALUES, VALUES), max_size=5),
    rto=st.none() | st.integers(0, 10**6) | st.floats(0, 1e6),
)
def test_plan_round_trips_as_json(arguments, facts, changes, rto) -> None:  # type: ignore[no-untyped-def]
    step = replace(CREATE, action=Call("any", arguments))
    planned = StepPlan(
        "create",
        tuple(Fact(entity, value) for entity, value in facts.items()),
        tuple(Change(entity, before, after) for entity, (before, after) in changes.items()),
    )
    plan = Plan(replace(DRILL, steps=(step,), objectives=Objectives(rto_seconds=rto)), (planned,))
    back = parse(canonical(plan))
    assert back == plan
    assert repr(back) == repr(plan)  # 1, 1.0 and True are equal, and not the same
    assert back.hash == plan.hash


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(also=1),
        lambda body: body["drill"].update(also=1),
        lambda body: body["drill"].pop("mode"),
        lambda body: body["drill"].update(mode="careless"),
        lambda body: body["steps"].pop(),
        lambda body: body["steps"].reverse(),
        lambda body: body["drill"]["steps"].append(body["drill"]["steps"][0]),
        lambda body: body["drill"].update(steps=[]),
        lambda body: body["steps"][0]["observed"].append(body["steps"][0]["observed"][0]),
    ],
)
def test_plan_with_inconsistent_steps_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    body = json.loads(canonical(PLAN))
    change(body)
    with pytest.raises(ValueError, match=r"plan|step"):
        parse(json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


@pytest.mark.parametrize("text", ["", "[]", "null", canonical(PLAN) + " "])
def test_parse_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a plan"):
        parse(text)


def test_canonical_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical(with_move(observed=(Fact("x", float("nan")),)))


# -- stale -------------------------------------------------------------------------------------------------------------

AS_PLANNED = (Fact("partitions of orders", None), Fact("arrivals at orders-0", 3), Fact("id", "x"))
DONE = (Fact("partitions of orders", 6), Fact("arrivals at orders-0", 3), Fact("id", "x"))


def test_stale_unchanged_facts_are_empty() -> None:
    assert stale(PLAN, AS_PLANNED) == ()
    assert stale(PLAN, (*AS_PLANNED, Fact("something else", 1))) == ()


def test_stale_changed_entity_is_named() -> None:
    found = stale(PLAN, (Fact("partitions of orders", 3), Fact("arrivals at orders-0", 3)))
    assert found == (ChangedFact("id", "x", None), ChangedFact("partitions of orders", None, 3))
    assert [str(one) for one in found] == [
        "id was x and is not there",
        "partitions of orders was not there and is 3",
    ]


def test_stale_value_of_another_type_is_a_change() -> None:
    assert stale(with_move(observed=(Fact("id", 1),), changes=()), (Fact("id", True),)) == (ChangedFact("id", 1, True),)


def test_stale_change_of_a_done_step_is_expected() -> None:
    assert stale(PLAN, DONE, done={"create"}) == ()
    assert [m.entity for m in stale(PLAN, AS_PLANNED, done={"create"})] == ["partitions of orders"]
    assert [m.entity for m in stale(PLAN, DONE)] == ["partitions of orders"]


def test_stale_begun_step_may_be_before_or_after() -> None:
    assert stale(PLAN, DONE, begun={"create"}) == ()
    assert stale(PLAN, AS_PLANNED, begun={"create"}) == ()
    other = (Fact("partitions of orders", 1), *DONE[1:])
    assert stale(PLAN, other, begun={"create"}) == (ChangedFact("partitions of orders", None, 1),)


def test_stale_change_that_another_client_made_is_expected_of_a_step_that_says_so() -> None:
    def settled(step: str, change: Change) -> tuple[Value, ...]:
        return (change.after,) if step == "create" else ()

    assert stale(PLAN, DONE, settled=settled) == ()
    assert [m.entity for m in stale(PLAN, (Fact("partitions of orders", 1), *DONE[1:]), settled=settled)] == [
        "partitions of orders"
    ]
    assert [m.entity for m in stale(PLAN, DONE, settled=lambda *_: ())] == ["partitions of orders"]
    by_hand = (Fact("partitions of orders", 9), *DONE[1:])
    for begun in ((), ("create",)):  # also of one that was killed
        assert stale(PLAN, by_hand, begun=begun, settled=lambda *_: (9,)) == ()


def test_stale_compares_only_the_given_steps() -> None:
    moved = (Fact("partitions of orders", 3), *AS_PLANNED[1:])
    assert stale(PLAN, moved, of={"move"}) == ()
    assert stale(PLAN, AS_PLANNED[1:], of={"move"}, done={"create"}) == ()
    assert [m.entity for m in stale(PLAN, moved, of={"create"})] == ["partitions of orders"]


def test_contradictions_names_entities_observed_differently() -> None:
    assert contradictions(PLAN.steps) == ()
    twice = (StepPlan("a", (Fact("end", 5),)), StepPlan("b", (Fact("end", 6),)))
    assert contradictions(twice) == (ChangedFact("end", 5, 6),)


# -- values ------------------------------------------------------------------------------------------------------------


def test_drill_practice_is_always_a_test() -> None:
    assert replace(DRILL, mode=Mode.PRACTICE).command is DrillEvent.TEST
    assert DRILL.command is DrillEvent.FAIL_OVER


def test_step_of_another_name_is_not_in_the_plan() -> None:
    with pytest.raises(KeyError):
        PLAN.of("nothing")


@pytest.mark.parametrize("changes", [{"steps": ()}, {"steps": (CREATE, CREATE)}, {"activity": DrillEvent.ABORT}])
def test_drill_that_cannot_be_run_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="drill failover"):
        replace(DRILL, **changes)  # type: ignore[arg-type]
