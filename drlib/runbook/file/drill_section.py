"""The `drill` of a runbook: flow, mode, hypothesis, steps; checked key by key before anything is asked of a cluster.

Rules: an unknown key or value is refused with its place. A value written `${name}` is the notebook's parameter of
that name, whole. Objectives are the runbook's own. What a step or an expectation may name is in `drlib.drill.run.registry`.
"""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from drlib.drill.plan.plan import Argument, Call, Danger, Drill, Expectation, Mode, Rollback, Step
from drlib.drill.plan.states import DrillEvent
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runs.scorecard import Objectives

Scalar = bool | int | float | str
Value = Scalar | list[Scalar]
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


class DrillSection(_Strict):
    """`lease`: hold the flow's lease on its target. Not where the target itself dies in the drill, on a lab."""

    flow: str = Field(pattern=r"^(\$\{\w+\}|[^\s>]+->[^\s>]+)$")
    mode: Mode
    activity: DrillEvent = DrillEvent.FAIL_OVER
    rollback: Rollback = Rollback.DEFAULT
    hypothesis: list[ExpectationSection] = []
    steps: list[StepSection]
    lease: bool = True


def drill(section: DrillSection, name: str, objectives: Objectives, parameters: Mapping[str, Value]) -> Drill:
    """The drill it says, with `parameters` put in. Raises `UsageError`."""
    flow = Flow.parse(str(_filled(section.flow, parameters, "flow")))
    try:
        return Drill(
            name=name,
            flow=flow,
            mode=section.mode,
            activity=section.activity,
            rollback=section.rollback,
            objectives=objectives,
            hypothesis=tuple(
                Expectation(
                    probe.title,
                    _call(probe.probe, probe.arguments, parameters, f"hypothesis '{probe.title}'"),
                )
                for probe in section.hypothesis
            ),
            steps=tuple(
                Step(
                    name=step.name,
                    title=step.title,
                    action=_call(step.action, step.arguments, parameters, f"step {step.name}"),
                    undoable=step.undoable,
                    danger=step.danger,
                    approval=step.approval,
                )
                for step in section.steps
            ),
        )
    except ValueError as error:
        raise UsageError(f"{name}: drill", str(error), "Correct the runbook.") from None


def _call(name: str, arguments: Mapping[str, Value], parameters: Mapping[str, Value], where: str) -> Call:
    parsed = []
    for key, value in arguments.items():
        filled = _filled(value, parameters, f"{where}: {key}")
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
