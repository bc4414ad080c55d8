"""What a step and a probe of the hypothesis have to offer the runner.

Rules: `observe` and `changes` touch nothing; `act`, `probe` and `undo` get the changes of the plan, so that what is done
is what was approved, by whichever process does it. `act` completes what is partly done; `undo` puts every entity back to
what it was before, whatever part was done; both are safe to repeat. A wait inside `act` is `abort.wait`. What cannot be
told is `Reach.UNKNOWN` or an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from drlib.drill.plan.plan import Call, Change, Drill, Fact
from drlib.drill.plan.progress import Reach
from drlib.errors import UsageError
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar

Made = TypeVar("Made")
Called = TypeVar("Called", bound=Call)
Changes = Sequence[Change]
Evidence = Mapping[str, Scalar]
"""What a step says of what it did. `rto_seconds`, `rpo_records` and `rpo_seconds` are held against the objectives."""


class Action(Protocol):
    """One step at work. Every method may raise a `DrlibError`."""

    def observe(self) -> Sequence[Fact]:
        """What the step relies on, as it is now: also every entity it would change."""

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """What it would change, where it finds `observed`."""

    def act(self, changes: Changes, abort: Abort) -> Evidence: ...

    def probe(self, changes: Changes) -> Reach: ...

    def undo(self, changes: Changes) -> None: ...

    def cluster_id(self) -> str:
        """The ID of the cluster it changes, for steps that destroy something."""


class ReadOnlyAction:
    """The part of an `Action` that is the same for every step which changes nothing: it only looks, or waits."""

    def observe(self) -> Sequence[Fact]:
        return ()

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return ()

    def probe(self, changes: Changes) -> Reach:
        return Reach.UNTOUCHED  # to look again costs time and nothing else

    def undo(self, changes: Changes) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Answer:
    """`holds` is None when nobody can tell; that is not a yes."""

    holds: bool | None
    evidence: str


@dataclass(frozen=True, slots=True)
class StepCall(Call):
    """What an action is made from: its call, and the step it is for, which names what it keeps (`details`)."""

    step: str = ""


Probe = Callable[[Abort], Answer]
ActionMaker = Callable[[StepCall], Action]
ProbeMaker = Callable[[Call], Probe]


def make_actions(drill: Drill, makers: Mapping[str, ActionMaker]) -> dict[str, Action]:
    """The drill's steps at work, by name. Raises `UsageError` for an action there is none of."""
    calls = {step.name: StepCall(step.action.name, step.action.arguments, step.name) for step in drill.steps}
    return {name: _made(call, makers, f"step {name}") for name, call in calls.items()}


def make_probes(drill: Drill, makers: Mapping[str, ProbeMaker]) -> dict[str, Probe]:
    """The hypothesis's probes, by title. Raises `UsageError` for a probe there is none of."""
    return {one.title: _made(one.probe, makers, f"hypothesis '{one.title}'") for one in drill.hypothesis}


def reach(found: Collection[Fact], changes: Changes) -> Reach:
    """How far `changes` came, by what is there now; anything that is neither before nor after is unknown."""
    now = {fact.entity: fact.value for fact in found}
    after = [c for c in changes if c.entity in now and now[c.entity] == c.after]
    before = [c for c in changes if c.entity in now and now[c.entity] == c.before]
    if len(after) == len(changes):
        return Reach.DONE
    if len(before) == len(changes):
        return Reach.UNTOUCHED
    return Reach.PARTLY if all(c in before or c in after for c in changes) else Reach.UNKNOWN


def _made(call: Called, makers: Mapping[str, Callable[[Called], Made]], where: str) -> Made:
    if call.name not in makers:
        known = ", ".join(sorted(makers)) or "none"
        raise UsageError(f"{where}: {call.name}", "there is nothing of that name", f"There are: {known}.")
    try:
        return makers[call.name](call)
    except KeyError as missing:
        raise UsageError(
            f"{where}: {call.name}", f"its argument {missing} is missing", f"Add the argument {missing}."
        ) from None
