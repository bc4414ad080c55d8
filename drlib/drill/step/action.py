"""What drill actions and probes are: frozen classes whose fields are their arguments.

Rules: arguments are parsed when a drill is opened, before anything is asked of a cluster: an unknown name, a missing or a
wrong value is refused. `bind` then gives the action its context and its step's name, and refuses what does not fit them.
`observe` and `changes` touch nothing; `act`, `probe` and `undo` get the changes of the plan, so that what is done is what
was approved, whichever process does it. `act` completes what is partly done; `undo` puts every entity back to what it was
before, whatever part was done; both are safe to repeat. A wait inside `act` is `abort.wait`. What cannot be established is
`Reach.UNKNOWN` or an error, never a guess.
Not for: which actions exist (`drlib.drill.run.registry`).
"""

import functools
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from drlib.drill.plan.plan import Argument, Call, Change, Fact
from drlib.drill.plan.plan import Value as FactValue
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output
from drlib.drill.step.argument_types import Value, nearest, wanted
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import Row, ScorecardPart
from drlib.errors import UsageError
from drlib.kafka.java_formats.references import HIDDEN
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark

Changes = Sequence[Change]
Evidence = Mapping[str, Scalar]
"""What a step reports of what it did. `rto_seconds`, `rpo_records` and `rpo_seconds` are compared with the objectives."""


class Action(Protocol):
    """One step, as the runner uses it. Every method may raise a `DrlibError`."""

    def observe(self) -> Sequence[Fact]:
        """What the step relies on, as it is now, and every entity it would change."""

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """What it would change, given `observed`."""

    def act(self, changes: Changes, abort: Abort) -> Evidence: ...

    def probe(self, changes: Changes) -> Reach: ...

    def undo(self, changes: Changes) -> None: ...

    def cluster_id(self) -> str:
        """The ID of the cluster it changes, for steps that destroy something."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`holds` is None where it could not be established; that is not a yes."""

    holds: bool | None
    evidence: str


Probe = Callable[[Abort], Answer]


class DrillCall(BaseModel):
    """A call of a runbook: its arguments as fields and, once bound, where it is made."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ignored_types=(functools.cached_property,),
    )

    name: ClassVar[str]
    """What a runbook calls it."""

    _context: DrillContext | None = PrivateAttr(default=None)
    _step: str = PrivateAttr(default="")

    @classmethod
    def parse(cls, call: Call, where: str) -> Self:
        """The call's arguments, checked. Raises `UsageError` naming `where`, the action and the argument."""
        arguments = {argument.name: argument.value for argument in call.arguments}
        for name in arguments:
            if name not in cls.model_fields:
                known = f"It takes {', '.join(cls.model_fields)}." if cls.model_fields else "It takes no arguments."
                raise UsageError(
                    f"{where}: {call.name}: {name}", "it has no such argument", nearest(name, cls.model_fields, known)
                )
        present = {
            name: value for name, value in arguments.items() if value not in wanted(cls.model_fields[name]).empty
        }
        try:
            return cls.model_validate(present)
        except UsageError as error:
            raise UsageError(f"{where}: {error.what}", error.why, error.remedy) from None
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            raise cls._refused(
                f"{where}: {call.name}", name, arguments.get(name) if name in present else None
            ) from None

    @classmethod
    def _refused(cls, what: str, name: str, value: Value | None) -> UsageError:
        if value is None:
            return UsageError(what, f"its argument '{name}' is missing", f"Add the argument '{name}'.")
        wish = wanted(cls.model_fields[name])
        return UsageError(f"{what}: {name}", f"{wish.kept(value)!r} is not {wish.words}", f"Give {wish.words}.")

    @classmethod
    def kept(cls, call: Call) -> Call:
        """`call` as it may be written down: of arguments that may hold a secret only what their types keep."""
        return Call(
            call.name,
            tuple(
                Argument(argument.name, wanted(cls.model_fields[argument.name]).kept(argument.value))
                if argument.name in cls.model_fields
                else Argument(argument.name, HIDDEN)
                for argument in call.arguments
            ),
        )

    def bind(self, context: DrillContext, step: str = "") -> Self:
        """The same call at `context`, for `step`. Raises `UsageError` where the arguments do not fit the context."""
        bound = self.model_copy()
        bound._context, bound._step = context, step
        bound.check()
        return bound

    def check(self) -> None:
        """Raises `UsageError` where the arguments do not fit the context. Touches no cluster."""

    @property
    def context(self) -> DrillContext:
        assert self._context is not None, f"{self.name} is not bound"
        return self._context

    @property
    def step(self) -> str:
        """The name of the step, under which its output is kept."""
        return self._step


class DrillAction(DrillCall):
    """A step that changes something."""

    @property
    def outage_s(self) -> float:
        """For how many seconds at most it keeps the flow's target from answering: the run's lease lasts longer."""
        return 0.0

    @property
    def needs_before(self) -> tuple[str, ...]:
        """Names of actions: without a step of one of them before it, it has nothing to do. None: it needs no other step."""
        return ()

    def nothing_before(self) -> UsageError:
        """What to raise where no step before it did anything for it."""
        return UsageError(
            f"step {self.step} has nothing to do",
            "no step before it did anything for it",
            f"Add {' or '.join(self.needs_before)} before it.",
        )

    @abstractmethod
    def observe(self) -> Sequence[Fact]: ...

    @abstractmethod
    def changes(self, observed: Sequence[Fact]) -> Changes: ...

    @abstractmethod
    def act(self, changes: Changes, abort: Abort) -> Evidence: ...

    @abstractmethod
    def probe(self, changes: Changes) -> Reach: ...

    @abstractmethod
    def undo(self, changes: Changes) -> None: ...

    @abstractmethod
    def cluster_id(self) -> str: ...

    def settled(self, change: Change) -> Sequence[FactValue]:
        """What its entity may be instead of `change.before` when the step begins, as nothing is left to be changed then."""
        return ()

    def show(self, rows: Iterable[Row]) -> None:
        """Keep `rows` as the step's results."""
        step_output.write_rows(self.context.run_dir, self.step, rows)

    def score(self, part: ScorecardPart) -> None:
        """Keep `part` as what this step adds to the scorecard; what it added before is replaced."""
        step_output.write_part(self.context.run_dir, self.step, part)

    def mark(self, *marks: Mark) -> None:
        """Put `marks` into the timeline of the run, and nothing else into the scorecard."""
        self.score(ScorecardPart(marks=marks))


class ReadOnlyAction(DrillAction):
    """A step that changes nothing: it observes, measures or waits."""

    def observe(self) -> Sequence[Fact]:
        return ()

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return ()

    def probe(self, changes: Changes) -> Reach:
        return Reach.UNTOUCHED  # repeating it costs time and nothing else

    def undo(self, changes: Changes) -> None:
        return None


class DrillProbe(DrillCall):
    """A probe of the steady-state hypothesis."""

    @abstractmethod
    def __call__(self, abort: Abort) -> Answer: ...


def reach(facts: Collection[Fact], changes: Changes) -> Reach:
    """How far `changes` came, by `facts` as they are now; anything that is neither before nor after is unknown."""
    now = {fact.entity: fact.value for fact in facts}
    after = [c for c in changes if c.entity in now and now[c.entity] == c.after]
    before = [c for c in changes if c.entity in now and now[c.entity] == c.before]
    if len(after) == len(changes):
        return Reach.DONE
    if len(before) == len(changes):
        return Reach.UNTOUCHED
    return Reach.PARTLY if all(c in before or c in after for c in changes) else Reach.UNKNOWN


def does_the_same(one: Call, other: Call | None) -> bool:
    """Are both calls of one action with the same arguments, but for how it is undone?"""

    def of(call: Call) -> frozenset[Argument]:
        return frozenset(argument for argument in call.arguments if not argument.name.startswith("undo_"))

    return other is not None and one.name == other.name and of(one) == of(other)
