"""The `waves` of a runbook's drill as steps: the one step that moves the applications, once for each wave and then verified.

Rules: pure. The step keeps its arguments; each wave has its own copy, `NAME-WAVE`, and behind it `NAME-WAVE-served`, which
fails where the wave is not served, so that the run stops before the next one. All waves are arguments of each, so a plan has
them all. An approval of the step is one before each wave. A planned drill is not rolled back by itself: a wave that has moved
is not moved back, and the run is resumed. What is wrong is refused before anything is asked of a cluster.
"""

from collections.abc import Mapping
from typing import Final

from drlib.drill.actions.waves import rules
from drlib.drill.actions.waves.rules import Wave, WaveApplication
from drlib.drill.plan.plan import Danger, Mode, Rollback
from drlib.errors import UsageError
from drlib.runbook.file.drill_section import DrillSection, StepSection, Value, WaveSection

MOVES: Final[Mapping[str, str]] = {"pointer.move": "wave.move", "switchover.move": "wave.switchover"}
VERIFY: Final = "wave.verify"
STARTS: Final = "lab.applications"
_OF_ALL: Final = frozenset({"groups", "application"})  # what waves say instead


def expanded(section: DrillSection, where: str) -> DrillSection:
    """The same without waves, their steps among its own. Raises `UsageError` naming `where`."""
    if not section.waves:
        return section
    moving = [step for step in section.steps if step.action in MOVES]
    if len(moving) != 1:
        raise UsageError(
            where,
            f"{len(moving)} steps move the applications ({', '.join(MOVES)}), and waves are for one",
            "Leave the waves out, or keep one such step.",
        )
    if not moving[0].undoable or moving[0].danger is Danger.NONE or "application" in moving[0].arguments:
        raise UsageError(
            where,
            f"step {moving[0].name} moves one application, or is said to be harmless or not undoable",
            "Leave application, danger and undoable out of it.",
        )
    names = [wave.name for wave in section.waves]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(where, f"two waves are called {twice[0]}", "Give each wave a name of its own.")
    plan = tuple(map(_wave, section.waves))
    written = rules.written_down(plan)
    try:
        rules.read(names[0], **written)
    except ValueError as error:
        raise UsageError(where, str(error), "Correct the waves.") from None
    arguments: dict[str, Value] = {key: list(texts) for key, texts in written.items() if texts}
    at = section.steps.index(moving[0])
    moved = [
        step
        for number, wave in enumerate(section.waves)
        for step in _steps(moving[0], wave, rules.label(number, len(plan), str(plan[number])), arguments)
    ]
    planned = section.mode is Mode.PLANNED and section.rollback is Rollback.DEFAULT
    before = [
        _starting(step, [each.name for wave in plan for each in wave.applications]) for step in section.steps[:at]
    ]
    changed = {"waves": [], "steps": [*before, *moved, *section.steps[at + 1 :]]}
    return section.model_copy(update={**changed, "rollback": Rollback.NEVER if planned else section.rollback})


def _starting(step: StepSection, names: list[str]) -> StepSection:
    """A step that starts a lab's applications also makes their pointers, so it gets the names of those that move alone."""
    names_alone: dict[str, Value] = {"moved_alone": list(names)}
    return step if step.action != STARTS else step.model_copy(update={"arguments": {**step.arguments, **names_alone}})


def _steps(
    moving: StepSection, wave: WaveSection, label: str, arguments: Mapping[str, Value]
) -> tuple[StepSection, ...]:
    own = {key: value for key, value in moving.arguments.items() if key not in _OF_ALL}
    usual = ("${source}", "${target}") if moving.action == "pointer.move" else ("${target}", "${source}")
    clusters: dict[str, Value] = dict(zip(("source", "target"), usual, strict=True))
    clusters |= {key: value for key, value in own.items() if key in clusters and value}
    within = {} if wave.within_s is None else {"within_s": wave.within_s}
    named = {"wave": wave.name, **arguments}
    name, about = f"{moving.name}-{wave.name}", label[:1].upper() + label[1:]
    move = moving.model_copy(
        update={
            "name": name,
            "title": f"{about}: {moving.title}",
            "action": MOVES[moving.action],
            "arguments": {**own, **named},
            "approval": moving.approval or wave.approval,
        }
    )
    served = StepSection(
        name=f"{name}-served",
        title=f"{about}: every application of it is served on {clusters['target']}",
        action=VERIFY,
        arguments={**clusters, **within, **named},
        danger=Danger.NONE,
    )
    return move, served


def _wave(section: WaveSection) -> Wave:
    return Wave(
        section.name,
        tuple(
            WaveApplication(each.name, tuple(each.groups), tuple(each.written), each.idle)
            for each in section.applications
        ),
    )
