"""Making a plan, which changes nothing, and keeping it: `plan.json` in a run's folder.

Rules: a plan is made by `observe` and `changes` alone, and everything is observed twice: where an entity changed meanwhile, or
two steps observed it differently, no plan is made. A plan holds hosts, names and references of arguments that may hold a
secret, and no more (`registry.kept`). The file holds the plan's canonical text and its hash, when it was made and by whom.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter

from drlib import clock, decoding
from drlib.drill.plan import plan as drill_plan
from drlib.drill.plan.one_look import one_look
from drlib.drill.plan.plan import Change, ChangedFact, Drill, Fact, Plan, StepPlan, Value
from drlib.drill.plan.staleness import stale
from drlib.drill.run import registry
from drlib.drill.step.action import Action, DrillAction
from drlib.errors import StalePlan, UsageError
from drlib.files import read_stored, write_whole
from drlib.runs.abort import user_name

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
PLAN_FILE: Final = "plan.json"
_STORED: Final = TypeAdapter(dict[str, object])


def make_plan(drill: Drill, actions: Mapping[str, Action]) -> Plan:
    """What `drill` would change now: the dry run. Raises `StalePlan` when an entity changes meanwhile, and what
    `refuse_order` does."""
    refuse_order(drill, actions)

    def planned(name: str) -> StepPlan:
        observed = tuple(actions[name].observe())
        return StepPlan(name, observed, tuple(actions[name].changes(observed)))

    names = [step.name for step in drill.steps]
    steps = at_once(planned, names)
    for step in steps:
        facts = {fact.entity: fact.value for fact in step.observed}
        for change in step.changes:
            if change.entity not in facts or facts[change.entity] != change.before:
                raise ValueError(f"step {step.step} changes {change.entity}, which it did not observe as it says")
    plan = Plan(registry.kept(drill, actions), tuple(steps))
    again = at_once(lambda name: StepPlan(name, tuple(actions[name].observe())), names)
    moved = drill_plan.contradictions((*steps, *again))
    if moved:
        raise stale_plan(drill.name, moved)
    return plan


def refuse_order(drill: Drill, actions: Mapping[str, Action]) -> None:
    """Raises `UsageError` for a step that continues what no step before it does, as the step itself would."""
    before: set[str] = set()
    for step in drill.steps:
        action = actions[step.name]
        if isinstance(action, DrillAction) and action.needs_before and before.isdisjoint(action.needs_before):
            raise action.nothing_before()
        before.add(step.action.name)


def compare(plan: Plan, actions: Mapping[str, Action]) -> None:
    """Raises `StalePlan` when an entity that `plan` relies on has changed. Changes nothing."""
    observed = at_once(lambda step: actions[step.name].observe(), plan.drill.steps)
    refuse_stale(plan, actions, [fact for facts in observed for fact in facts])


def refuse_stale(
    plan: Plan,
    actions: Mapping[str, Action],
    observed: Iterable[Fact],
    *,
    of: Collection[str] | None = None,
    done: Collection[str] = (),
    begun: Collection[str] = (),
) -> None:
    """Raises `StalePlan` when `observed` is not as `plan` expects; arguments as of `stale`."""

    def settled(step: str, change: Change) -> Sequence[Value]:
        action = actions[step]
        return action.settled(change) if isinstance(action, DrillAction) else ()

    moved = stale(plan, observed, of=of, done=done, begun=begun, settled=settled)
    if moved:
        raise stale_plan(plan.drill.name, moved)


def at_once(ask: Callable[[Asked], Answer], of: Sequence[Asked]) -> list[Answer]:
    """`ask` of each, at the same time, as each waits for clusters: the answers in order. Raises the first one's exception.

    What several of them ask for `once` is asked once.
    """
    with one_look(), ThreadPoolExecutor(max(1, len(of)), "planning") as pool:
        asked = [pool.submit(copy_context().run, ask, each) for each in of]
        return [each.result() for each in asked]


def stale_plan(name: str, moved: tuple[ChangedFact, ...]) -> StalePlan:
    """What to raise when `moved` is not as the plan of drill `name` expects."""
    return StalePlan(f"the plan of {name} is stale", "; ".join(str(change) for change in moved), "Make a new plan.")


def write(plan: Plan, folder: Path) -> Path:
    """Put `plan` into `folder`, whole or not at all. Raises `UsageError` when another one is there."""
    path = folder / PLAN_FILE
    if path.exists():
        if read(folder).hash != plan.hash:
            raise UsageError(f"{folder} has another plan", f"{PLAN_FILE} is there", "Use a new run folder.")
        return path
    body = {
        "hash": plan.hash,
        "made_ms": clock.now_ms(),
        "made_by": user_name(),
        "plan": decoding.json_value(drill_plan.canonical(plan)),
    }
    write_whole(path, json.dumps(body, indent=1, ensure_ascii=False))
    return path


def read(folder: Path) -> Plan:
    """The plan in `folder`. Raises `UsageError` when there is none, or one that was changed."""
    path = folder / PLAN_FILE
    try:
        return parse(read_stored(path))
    except FileNotFoundError:
        raise UsageError(f"no plan in {folder}", f"there is no {PLAN_FILE}", "Make a plan first.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read", error.strerror or str(error), "Make a new plan.") from error
    except ValueError as error:
        raise UsageError(f"{path} cannot be used", str(error), "Make a new plan.") from None


def parse(data: bytes) -> Plan:
    """The plan that `write` wrote. Raises ValueError for anything else."""
    body = decoding.json_as(_STORED, data)
    if not {"hash", "plan"} <= body.keys():
        raise ValueError("it has no plan with its hash")
    text = json.dumps(body["plan"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    plan = drill_plan.parse(text)
    if body["hash"] != plan.hash:
        raise ValueError("its hash does not match its content")
    return plan
