"""The `drill` of a runbook: flow, mode, hypothesis, steps; checked key by key before anything is asked of a cluster.

Rules: an unknown key or value is refused with its place. A value written `${name}` is the notebook's parameter of
that name, whole; so may be `flow`, which is chosen then (`asked_flow`). Once the flow is known, `${flow}`, `${source}` and
`${target}` are values too: in an argument or in an item of a list, whole, and anywhere in a title. A notebook's own parameter
`source` or `target` comes first, unless it is empty. Objectives are the runbook's own. What a step or an expectation may name
is in `drlib.drill.run.registry`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from drlib.drill.actions.waves.rules import NAME
from drlib.drill.plan.plan import Argument, Call, Danger, Drill, Expectation, Mode, Rollback, Step
from drlib.drill.plan.states import DrillEvent
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runs.scorecard import Objectives

Scalar = bool | int | float | str
Value = Scalar | list[Scalar]
OF_FLOW: Final = ("flow", "source", "target")
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StepSection(_Strict):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    action: str
    arguments: dict[str, Value] = {}
    undoable: bool = True
    danger: Danger = Danger.CHANGES
    approval: bool = False


class ExpectationSection(_Strict):
    title: str
    probe: str
    arguments: dict[str, Value] = {}


class ApplicationSection(_Strict):
    """One application of a wave: what of it has to be served. `groups` are patterns, `written` names of topics. `idle`: its
    groups may have nothing to read."""

    name: str = Field(pattern=NAME)
    groups: list[str] = []
    written: list[str] = []
    idle: bool = False


class WaveSection(_Strict):
    """`within_s`: how long its applications may take until they are served, the runbook's own default where it is not given."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    applications: list[ApplicationSection] = Field(min_length=1)
    within_s: float | None = Field(default=None, ge=0)
    approval: bool = False


class DrillSection(_Strict):
    """`lease`: hold the flow's lease on its target. Not where the target itself dies in the drill, on a lab. `waves`: the order
    in which applications move, each wave verified before the next one; none in a section whose steps are those of the waves."""

    flow: str = Field(pattern=r"^(\$\{\w+\}|[^\s>]+->[^\s>]+)$")
    mode: Mode
    activity: DrillEvent = DrillEvent.FAIL_OVER
    rollback: Rollback = Rollback.DEFAULT
    hypothesis: list[ExpectationSection] = []
    stop_conditions: list[ExpectationSection] = []
    waves: list[WaveSection] = []
    steps: list[StepSection]
    lease: bool = True


def asked_flow(section: DrillSection, parameters: Mapping[str, Value]) -> str | None:
    """What the parameter that stands for the flow has, "" where the flow is to be chosen; None where the runbook names one.

    Raises `UsageError` where the runbook names one and `flow` asks for another.
    """
    if parameter_of(section.flow):
        return str(_filled(section.flow, {"flow": "", **parameters}, "flow")).strip()
    asked = parameters.get("flow")
    if isinstance(asked, str) and asked.strip() and Flow.parse(asked) != Flow.parse(section.flow):
        raise UsageError(
            f"flow {asked}",
            f"this runbook is written for {section.flow}",
            'Write `flow: "${flow}"` into its drill, or leave the parameter out.',
        )
    return None


def drill(
    section: DrillSection,
    name: str,
    objectives: Objectives,
    parameters: Mapping[str, Value],
    flow: Flow | None = None,
) -> Drill:
    """The drill it says, with `parameters` put in, of `flow`; None for the one that it names. Raises `UsageError`."""
    flow = flow or Flow.parse(str(_filled(section.flow, parameters, "flow")))
    values = with_flow(parameters, flow)
    try:
        return Drill(
            name=name,
            flow=flow,
            mode=section.mode,
            activity=section.activity,
            rollback=section.rollback,
            objectives=objectives,
            hypothesis=_expectations(section.hypothesis, values, flow, "hypothesis"),
            stop_conditions=_expectations(section.stop_conditions, values, flow, "stop condition"),
            steps=tuple(
                Step(
                    name=step.name,
                    title=title(step.title, flow),
                    action=_call(step.action, step.arguments, values, f"step {step.name}"),
                    undoable=step.undoable,
                    danger=step.danger,
                    approval=step.approval,
                )
                for step in section.steps
            ),
        )
    except ValueError as error:
        raise UsageError(f"{name}: drill", str(error), "Correct the runbook.") from None


def _expectations(
    sections: Iterable[ExpectationSection], values: Mapping[str, Value], flow: Flow, what: str
) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(title(probe.title, flow), _call(probe.probe, probe.arguments, values, f"{what} '{probe.title}'"))
        for probe in sections
    )


def with_flow(parameters: Mapping[str, Value], flow: Flow) -> dict[str, Value]:
    """`parameters`, and the values that are known with `flow`."""
    known: dict[str, Value] = {"source": flow.source, "target": flow.target}
    own = {name: value for name, value in parameters.items() if name not in known or value != ""}
    return {**known, **own, "flow": str(flow)}


def title(text: str, flow: Flow | None) -> str:
    """A title with `${flow}`, `${source}` and `${target}` put in, in general words where the flow is not known yet.

    Raises `UsageError` for any other reference.
    """
    source, target = ("the source", "the target") if flow is None else (flow.source, flow.target)
    known = {"flow": "the flow" if flow is None else str(flow), "source": source, "target": target}
    if unknown := [name for name in _REFERENCE.findall(text) if name not in known]:
        raise UsageError(
            f"title '{text}'",
            f"there is no value {unknown[0]} for titles",
            f"Use {', '.join(f'${{{name}}}' for name in OF_FLOW)}.",
        )
    return _REFERENCE.sub(lambda match: known[match[1]], text)


def _call(name: str, arguments: Mapping[str, Value], parameters: Mapping[str, Value], where: str) -> Call:
    parsed = []
    for key, value in arguments.items():
        filled = _filled(value, parameters, f"{where}: {key}")
        if isinstance(value, list):
            filled = [str(parameters[of]) if (of := parameter_of(part)) in OF_FLOW else part for part in value]
        parsed.append(Argument(key, tuple(str(part) for part in filled) if isinstance(filled, list) else filled))
    return Call(name, tuple(parsed))


def parameter_of(value: Value) -> str:
    """The parameter that `value`, an argument as it is written, stands for; "" for none."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return match[1] if match else ""


def _filled(value: Value, parameters: Mapping[str, Value], where: str) -> Value:
    name = parameter_of(value)
    if not name:
        return value
    if name not in parameters:
        known = ", ".join(sorted(parameters)) or "none"
        raise UsageError(where, f"there is no parameter {name}", f"Define it, or use one of:  {known}.")
    return parameters[name]
