"""A drill as data, and a plan: what each of its steps will change, bound by a hash to what was observed when it was made.

Rules: everything here is frozen and round-trips as JSON. The hash is SHA-256 over the canonical JSON of the drill, of what was
observed and of what would change: exactly what an approval is given to; not over when or by whom the plan was made. A value
that could not be established is never put in a plan: `observe` raises instead.
Not for: observing (`drlib.drill.run.planning`), whether it still holds (`staleness`), and what to do next (`progress`).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.drill.plan.states import DrillEvent
from drlib.model import Flow
from drlib.runs.scorecard import Objectives

Value = str | int | float | bool | None
"""Of an entity: None is "it is not there"."""


class Mode(StrEnum):
    PRACTICE = "practice"  # lab or shadow groups: nothing the applications rely on is touched
    PLANNED = "planned"  # both clusters serve: drain first, nothing is lost
    EMERGENCY = "emergency"  # the source is gone


# what a mode means
MEANING: Final[Mapping[Mode, str]] = {
    Mode.PRACTICE: "nothing your applications rely on is touched.",
    Mode.PLANNED: "real applications move; both clusters serve.",
    Mode.EMERGENCY: "real applications move; the source is treated as lost.",
}


class Rollback(StrEnum):
    DEFAULT = "default"  # practice: always; planned: when it deviated or was aborted; emergency: never
    ALWAYS = "always"
    NEVER = "never"
    DEVIATED = "deviated"


class Danger(StrEnum):
    NONE = "none"  # changes nothing, so there is nothing to undo
    CHANGES = "changes"
    DESTRUCTIVE = "destructive"  # deletes, or cannot be undone: a real cluster's ID has to be typed


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """What to do or to look at, by the name it is registered under."""

    name: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`undoable`: its action can undo what it changed. `approval`: it has to be approved by name."""

    name: str
    title: str
    action: Call
    undoable: bool = True
    danger: Danger = Danger.CHANGES
    approval: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """One sentence of the steady-state hypothesis, or one stop condition, and the probe that says whether it holds."""

    title: str
    probe: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """`activity` is the command of `drill_states` that it carries out; a practice always is a test. `stop_conditions` must hold
    while it runs, or it is aborted."""

    name: str
    flow: Flow
    mode: Mode
    steps: tuple[Step, ...]
    hypothesis: tuple[Expectation, ...] = ()
    activity: DrillEvent = DrillEvent.FAIL_OVER
    rollback: Rollback = Rollback.DEFAULT
    objectives: Objectives = field(default_factory=Objectives)
    stop_conditions: tuple[Expectation, ...] = ()

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"drill {self.name}: it needs at least one step, and each step a unique name: {names}")
        titles = [each.title for each in (*self.hypothesis, *self.stop_conditions)]
        if twice := next((title for title in titles if titles.count(title) > 1), None):
            raise ValueError(f"drill {self.name}: '{twice}' is the title of two probes")
        if self.activity not in ACTIVITIES:
            raise ValueError(f"drill {self.name}: {self.activity} is no activity of a drill")

    @property
    def command(self) -> DrillEvent:
        return DrillEvent.TEST if self.mode is Mode.PRACTICE else self.activity


ACTIVITIES: Final = frozenset({DrillEvent.TEST, DrillEvent.FAIL_OVER, DrillEvent.REPROTECT, DrillEvent.FAIL_BACK})


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """What an entity is, such as ("partitions of topic orders on RIGHT", 6)."""

    entity: str
    value: Value


@dataclass(frozen=True, slots=True, order=True)
class Change:
    entity: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step relies on and what it would change, as seen when the plan was made; both are kept by entity."""

    step: str
    observed: tuple[Fact, ...] = ()
    changes: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        for name in ("observed", "changes"):
            items: tuple[Fact | Change, ...] = getattr(self, name)
            if len({item.entity for item in items}) != len(items):
                raise ValueError(f"step {self.step}: an entity is {name} twice")
            object.__setattr__(self, name, tuple(sorted(items, key=lambda item: item.entity)))


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` are in the drill's order, one for each of its steps."""

    drill: Drill
    steps: tuple[StepPlan, ...]

    def __post_init__(self) -> None:
        if [planned.step for planned in self.steps] != [step.name for step in self.drill.steps]:
            raise ValueError(f"plan of {self.drill.name}: its steps are not the drill's")

    def of(self, step: str) -> StepPlan:
        """Raises KeyError for an unknown step."""
        for planned in self.steps:
            if planned.step == step:
                return planned
        raise KeyError(step)

    @property
    def hash(self) -> str:
        return hashlib.sha256(canonical(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class ChangedFact:
    """An entity that is not what the plan expects; `now` is None when it is not there."""

    entity: str
    planned: Value
    now: Value

    def __str__(self) -> str:
        return f"{self.entity} was {value_words(self.planned)} and is {value_words(self.now)}"


def canonical(plan: Plan) -> str:
    """One text for one plan: keys sorted, no spaces. Raises ValueError for NaN and infinity."""
    made = asdict(plan)
    if not plan.drill.stop_conditions:  # as plans were written before there were any
        del made["drill"]["stop_conditions"]
    return json.dumps(
        made,
        default=Objectives.model_dump,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def parse(text: str) -> Plan:
    """The plan `canonical` wrote. Raises ValueError for anything else, a key too many included."""
    try:
        plan = decoding.json_as(_ADAPTER, text)
    except Undecodable as error:
        raise ValueError(f"not a plan: {error}") from None
    if canonical(plan) != text:
        raise ValueError("not a plan: it has other fields than a plan, or writes them differently")
    return plan


def contradictions(steps: Iterable[StepPlan]) -> tuple[ChangedFact, ...]:
    """Entities that two steps saw differently: something moved while the plan was made."""
    seen: dict[str, Value] = {}
    differing = []
    for planned in steps:
        for fact in planned.observed:
            if not same_value(seen.setdefault(fact.entity, fact.value), fact.value):
                differing.append(ChangedFact(fact.entity, seen[fact.entity], fact.value))
    return tuple(differing)


def same_value(one: Value, other: Value) -> bool:
    return type(one) is type(other) and one == other  # True is not 1


def value_words(value: Value) -> str:
    """What an entity is, for people."""
    return "not there" if value is None else str(value)


_ADAPTER: Final = TypeAdapter(Plan)
