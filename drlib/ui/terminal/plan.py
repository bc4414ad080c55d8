"""A plan on a terminal: what each step changes, as before -> after, what is dangerous, objectives, rollback and hash.

Rules: the banner comes first, then the mode; a step that changes nothing says so; steps that destroy, wait for approval or
cannot be undone are marked; an entity that does not exist is shown so. Text from outside never becomes markup.
"""

from collections.abc import Mapping
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.drill.plan import shown
from drlib.drill.plan.plan import Danger, Mode, Plan, Rollback, Step, Value
from drlib.lab.environment import Environment
from drlib.runs.scorecard import Objectives
from drlib.ui.terminal.banner import banner_line
from drlib.ui.terminal.plain_console import pairs

COLOURS: Final[Mapping[Mode, str]] = {Mode.PRACTICE: "green", Mode.PLANNED: "yellow", Mode.EMERGENCY: "red"}
_BY_MODE: Final[Mapping[Mode, str]] = {
    Mode.PRACTICE: "always: it cleans up",
    Mode.PLANNED: "when it deviates or is aborted",
    Mode.EMERGENCY: "never",
}
_BY_STRATEGY: Final[Mapping[Rollback, str]] = {
    Rollback.ALWAYS: "always",
    Rollback.NEVER: "never",
    Rollback.DEVIATED: "when it deviates, not when it is aborted",
}


def plan_of(plan: Plan, environment: Environment | None = None) -> RenderableType:
    """The whole plan: banner, head, steps with their changes, hypothesis, objectives, rollback, hash.

    `environment`: of the clusters it was made for; None, without a banner, where that is not known.
    """
    drill = plan.drill
    colour, meaning = COLOURS[drill.mode], shown.meaning(drill, environment)
    head = Text.assemble(
        (f" {shown.mode_word(drill.mode, environment).upper()} ", f"bold reverse {colour}"),
        (f"  {formats.one_line(drill.name)}", "bold"),
        f"  {formats.one_line(str(drill.flow))}\n",
        (f"{meaning[0].upper()}{meaning[1:]}", "dim"),
    )
    body = (head, Padding(_steps(plan), (1, 0)), _rest(plan))
    return Group(*body) if environment is None else Group(banner_line(shown.banner(drill, environment)), *body)


def rolls_back(plan: Plan) -> str:
    """When the drill undoes its changes, in words."""
    drill = plan.drill
    return _BY_MODE[drill.mode] if drill.rollback is Rollback.DEFAULT else _BY_STRATEGY[drill.rollback]


def _steps(plan: Plan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", justify="right", style="dim")
    table.add_column("step", overflow="fold", ratio=3)
    table.add_column("now", overflow="fold", justify="right", ratio=2)
    table.add_column("")
    table.add_column("after", overflow="fold", ratio=2)
    for number, (step, planned) in enumerate(zip(plan.drill.steps, plan.steps, strict=True), 1):
        name = Text(formats.one_line(step.name), style="bold")
        title = "" if step.title == step.name else f"  {formats.one_line(step.title)}"
        table.add_row(str(number), Text.assemble(name, title, *_marks(step)))
        if not planned.changes:
            table.add_row("", Text("  changes nothing", style="dim"))
        for change in planned.changes:
            table.add_row(
                "",
                Text(f"  {formats.one_line(change.entity)}"),
                Text(_said(change.before), style="red"),
                "→",
                Text(_said(change.after), style="green"),
            )
    return table


def _marks(step: Step) -> list[tuple[str, str]]:
    lines = []
    if step.danger is Danger.DESTRUCTIVE:
        lines.append(("  DESTRUCTIVE", "bold red"))
    if step.approval:
        lines.append(("  waits for approval", "bold yellow"))
    if not step.undoable and step.danger is not Danger.NONE:
        lines.append(("  cannot be undone", "yellow"))
    return lines


def _rest(plan: Plan) -> Table:
    drill = plan.drill
    table = pairs()
    expected = "\n".join(formats.one_line(expectation.title) for expectation in drill.hypothesis) or "none"
    table.add_row("Steady state", Text(expected))
    if drill.stop_conditions:
        table.add_row("Stops unless", Text("\n".join(formats.one_line(each.title) for each in drill.stop_conditions)))
    table.add_row("Objectives", Text(_objectives(drill.objectives)))
    table.add_row("Rolls back", Text(rolls_back(plan)))
    table.add_row("Plan", Text(plan.hash))
    return table


def _objectives(wanted: Objectives) -> str:
    parts = []
    if wanted.rto_seconds is not None:
        parts.append(f"RTO {formats.duration(wanted.rto_seconds)}")
    if wanted.rpo_records is not None:
        parts.append(f"RPO {formats.records(wanted.rpo_records)}")
    if wanted.rpo_seconds is not None:
        parts.append(f"RPO {formats.duration(wanted.rpo_seconds)}")
    return ", ".join(parts) or "none"


def _said(value: Value) -> str:
    return "does not exist" if value is None else formats.one_line(str(value))
