"""Whether a plan still holds: what was observed for it against what is observed now. Pure.

Rules: a plan is stale when an entity is neither as it was observed nor as the plan's own steps have left it, nor such that
nothing is left to be changed, as another run or a person did it. A stale plan is refused before it starts, and again before
each step (`drlib.errors.StalePlan`, exit code 12).
Not for: observing (`drlib.drill.run.planning`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from drlib.drill.plan.plan import Change, ChangedFact, Fact, Plan, Value, same_value


def stale(
    plan: Plan,
    observed: Iterable[Fact],
    *,
    of: Collection[str] | None = None,
    done: Collection[str] = (),
    begun: Collection[str] = (),
    settled: Callable[[str, Change], Sequence[Value]] = lambda _step, _change: (),
) -> tuple[ChangedFact, ...]:
    """What is no longer as `plan` expects, by entity; empty when the plan still holds.

    `of` are the steps whose facts count, all when None. `done` are steps that did what they had to; `begun` those that
    may have done some of it, whose entities may be as before or as after. `settled`: values of an entity with which nothing is
    left of a step's change. Entities the plan does not speak of are ignored; a fact that counts and is missing in `observed`
    is None.
    """
    now = {fact.entity: fact.value for fact in observed}
    expected: dict[str, list[Value]] = {}
    for planned in plan.steps:
        if of is None or planned.step in of:
            for fact in planned.observed:
                expected.setdefault(fact.entity, [fact.value])
    for planned in plan.steps:
        for change in planned.changes:
            if change.entity not in expected:
                continue
            if planned.step in done:
                expected[change.entity] = [change.after]
                continue
            if planned.step in begun:
                expected[change.entity].append(change.after)
            expected[change.entity] += settled(planned.step, change)
    return tuple(
        ChangedFact(entity, values[0], now.get(entity))
        for entity, values in sorted(expected.items())
        if not any(same_value(value, now.get(entity)) for value in values)
    )
