"""Opening a runbook's drill in a notebook: its plan made, or the run in a folder resumed.

Rules: a folder that has a plan is run by that plan and by no other; making one touches no cluster. A lab that is not up is
started, and taken down again when the drill is closed. Parameters a step names with `${...}` are those given here, else
the runbook's own; objectives may be given like parameters, and None is not given. The flow of a runbook that leaves it open is
that of the plan in the folder, so that a run is resumed whatever became of the file; else it is chosen (`choose_flow`).
"""

import contextlib
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from drlib.arguments import checked
from drlib.client.pointer import POINTER_NAME
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.lease_record import session_ms
from drlib.drill.plan.plan import Drill, Plan
from drlib.drill.plan.supersede import Beginning
from drlib.drill.readiness import gate
from drlib.drill.run import planning, registry, request
from drlib.drill.run.lease import Lease
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.request import ClusterTarget, Request
from drlib.drill.scenarios.failover.mirror import names_of
from drlib.drill.session.session import DrillSession, Leased
from drlib.drill.step.action import Action, DrillAction, Probe
from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.failover_testbed import PROPERTIES_NAME, name_topics
from drlib.errors import UsageError
from drlib.lab import choose_flow
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.runbook import run_parameters
from drlib.runbook.file import drill_section, model
from drlib.runbook.file.drill_section import Value
from drlib.runbook.file.find import find
from drlib.runbook.file.model import LabSection, Runbook
from drlib.runs import folder
from drlib.runs.journal import JOURNAL
from drlib.runs.scorecard import Objectives
from drlib.ui.console.board import LiveBoard
from drlib.ui.console.presence import Presence, connections_here

GATE_MS: Final = 60_000  # how long the command line's look at the gate is believed: as long as its evidence lasts
_RESUME_WAIT_S: Final = 10.0  # a holder that was killed leaves its group so soon after its session


@checked
def open_drill(
    runbook: str | Path,
    run_dir: str | Path = "",  # empty: a new folder under ../runs
    *,
    lab_dir: str | Path = "",
    properties: str | Path = "",
    approve: Sequence[str] = (),
    cluster_ids: Sequence[str] = (),
    skip_gate: str = "",  # why the readiness gate is passed over, in an emergency
    supersede: str = "",  # the flow's unfinished run that this one gives up
    **parameters: Value,
) -> DrillSession:
    """The drill of `runbook`, a file or a name of runbooks/, on the lab in `lab_dir` or the clusters of `properties`.

    Raises `UsageError` for what is wrong with any of it, `StalePlan` when clusters move while the plan is made.
    """
    book = model.load(find(runbook))
    place = folder.opened(run_dir, book.name)
    asked = request.find(place)
    if asked is not None and asked.properties is not None:  # what the command line was given is where the run is
        lab_dir, properties = "", asked.properties
    if asked is None or (asked.properties is None and asked.lab_dir is None):
        asked = _asked(book, asked, lab_dir, properties, parameters)
    asked = asked.model_copy(update={"supersede": Path(supersede).name}) if supersede else asked
    opened = prepare(book, place, ClusterTarget.of(properties, lab_dir), parameters, asked=asked)
    try:
        plan = _plan(opened.drill, opened.actions, place)
        asked = asked.model_copy(update={"skip_gate": skip_gate}) if skip_gate else asked
        of_plan = asked.of_plan(plan.hash)
        if request.find(place) != asked:
            of_plan.write(place)
        permissions = Permissions(
            approved=frozenset((*approve, *asked.approved)),
            cluster_ids=frozenset((*cluster_ids, *asked.cluster_ids)),
            lab=opened.workplace.lab is not None,
            readiness=_readiness(opened, asked),
        )
        return DrillSession(
            plan,
            opened.workplace,
            opened.actions,
            opened.probes,
            lease=opened.lease,
            permissions=permissions,
            board=LiveBoard(present=Presence(connections_here)),
            on_close=opened.close,
            new=opened.new,
        )
    except BaseException:
        opened.close()
        raise


@dataclass(frozen=True)
class Opened:
    """A drill with its steps and probes at work; so far nothing was asked of a cluster. `close` ends a lab that was started."""

    drill: Drill
    workplace: DrillContext
    actions: Mapping[str, Action]
    probes: Mapping[str, Probe]
    lease: Leased
    close: Callable[[], None]
    new: Beginning


def prepare(
    book: Runbook,
    place: Path,
    target: ClusterTarget,
    parameters: Mapping[str, Value],
    *,
    start_lab: bool = True,
    asked: Request | None = None,
) -> Opened:
    """The drill of `book` in the run folder `place`. A lab that is not up is started, or, without `start_lab`, refused.

    Raises `UsageError` for what is wrong with any of it.
    """
    if book.drill is None:
        raise UsageError(f"runbook {book.name}", "it has no drill", "Add a `drill:` to it.")
    objectives = {name: parameters[name] for name in Objectives.model_fields if parameters.get(name) is not None}
    try:
        aims = Objectives.model_validate({**book.objectives.model_dump(), **objectives})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"objective {first['loc'][0]}", first["msg"].lower(), "Give a number, or None.") from None
    merged = {**book.parameters, **parameters}
    flow = chosen_flow(book, target, merged, place=place, start_lab=start_lab)
    wanted = drill_section.drill(book.drill, book.name, aims, merged, flow)
    parsed = registry.parse_drill(wanted)
    workplace, end_lab = _workplace(wanted, place, target, book.lab, start_lab)
    try:
        actions, probes = parsed.bind(workplace)
        new = Beginning(
            run=place.name,
            command=wanted.command,
            mode=wanted.mode,
            supersede=asked.supersede if asked else "",
            again=asked.command if asked else "the same command",
        )
        lease = _lease(workplace, new, actions.values()) if book.drill.lease else contextlib.nullcontext
        return Opened(wanted, workplace, actions, probes, lease, end_lab, new)
    except BaseException:
        end_lab()
        raise


def chosen_flow(
    book: Runbook,
    target: ClusterTarget,
    parameters: Mapping[str, Value],
    *,
    place: Path | None = None,
    start_lab: bool = True,
) -> Flow | None:
    """The flow of `book`'s drill at `target`; None where the runbook names it. Touches no cluster, and starts no lab.

    `place`: the run's folder, whose plan has the flow of a run that was planned. Raises `UsageError` for a flow that is not
    there, is disabled, or is one of several.
    """
    asked = None if book.drill is None else drill_section.asked_flow(book.drill, parameters)
    if asked is None:
        return None
    if place is not None and (place / planning.PLAN_FILE).exists():
        planned = planning.read(place).drill.flow
        return (
            planned if asked in ("", str(planned)) else Flow.parse(asked)
        )  # another one is refused: it is another drill
    if target.properties is not None:
        settings = load_mirror_settings(target.properties.absolute())
        return choose_flow.of_file(settings, asked, command_of(book, target.properties))
    if target.lab_dir is None:
        raise _no_clusters(book.name)
    if start_lab:
        return choose_flow.of_lab(choose_flow.lab_aliases(target.lab_dir, book.lab.to_start), asked)
    return choose_flow.of_lab(tuple(Lab.attach(target.lab_dir).clusters), asked)


def command_of(book: Runbook, properties: Path) -> str:
    """The command that runs `book` on the clusters of a file, as it would be typed here."""
    here = Path.cwd()
    file = book.file.relative_to(here) if book.file.is_relative_to(here) else book.file
    return shlex.join(["drlib", "run", str(file), str(properties)])


def _no_clusters(name: str) -> UsageError:
    return UsageError(f"drill {name}", "no clusters were given", "Give lab_dir, or properties with your clusters.")


def _plan(wanted: Drill, actions: Mapping[str, Action], place: Path) -> Plan:
    if not (place / planning.PLAN_FILE).exists():
        plan = planning.make_plan(wanted, actions)
        planning.write(plan, place)
        return plan
    plan = planning.read(place)
    same_drill(wanted, actions, plan, place)
    return plan


def same_drill(wanted: Drill, actions: Mapping[str, Action], plan: Plan, place: Path) -> None:
    """Raises `UsageError` when the plan in `place` is another drill's than `wanted`, whose steps are `actions`."""
    if registry.kept(plan.drill, actions) != registry.kept(wanted, actions):
        raise UsageError(
            f"{place.name} has another drill's plan",
            "the runbook or a parameter is not what it was when the plan was made",
            "Use the parameters it was planned with, or make a new plan: a new run, which gives up this one where it is "
            f"unfinished (--supersede {place.name}).",
        )


def _asked(
    book: Runbook,
    asked: Request | None,
    lab_dir: str | Path,
    properties: str | Path,
    parameters: Mapping[str, Value | None],
) -> Request:
    """What a notebook asks for, so that the command line can abort its run, resume it and roll it back."""
    requested = asked or Request(runbook=book.file, parameters=run_parameters.known(book, parameters))
    place = {"properties": properties, "lab_dir": lab_dir}
    return requested.model_copy(update={name: Path(value).absolute() for name, value in place.items() if str(value)})


def _readiness(opened: Opened, asked: Request) -> str:
    """The result of the readiness gate, checked unless the run is resumed or the command line has just checked it."""
    if (opened.workplace.run_dir / JOURNAL).exists():
        return ""
    if asked.gate and time.time() * 1000 - asked.gate_ms < GATE_MS:
        return asked.gate
    return gate.pass_gate(opened.workplace, opened.drill.mode, skip=asked.skip_gate, activity=opened.drill.command)


def _workplace(
    wanted: Drill, place: Path, target: ClusterTarget, wants: LabSection, start_lab: bool
) -> tuple[DrillContext, Callable[[], None]]:
    if target.properties:
        path = target.properties.absolute()
        clusters = load_mirror_settings(path).clusters
        context = DrillContext(clusters=clusters, flow=wanted.flow, run_dir=place, properties=path)
        for alias in (wanted.flow.source, wanted.flow.target):
            context.cluster(alias)
        return context, lambda: None
    if not target.lab_dir:
        raise _no_clusters(wanted.name)
    lab, own = _lab(target.lab_dir, wants, start_lab)
    file = lab.root / PROPERTIES_NAME
    if (names := names_of(wanted)) is not None:
        name_topics(lab, names, wanted.flow)
    clusters = {a: c.settings(user=lab.operator) for a, c in lab.clusters.items()}
    context = DrillContext(
        clusters=clusters,
        flow=wanted.flow,
        run_dir=place,
        properties=file if file.exists() else lab.write_properties(),
        lab=lab,
        pointer=lab.root / POINTER_NAME,
    )
    return context, lab.down if own else lambda: None


def _lab(root: Path, wants: LabSection, start: bool) -> tuple[Lab, bool]:
    """The lab that runs in `root`, or one started there, and whether it was. A cluster a drill killed is no reason.

    Raises `UsageError` when the one that runs lacks a cluster that the runbook names, or none runs and none may be started.
    """
    if start:
        return Lab.attach_or_up(root, wants.to_start, needed=wants.clusters)
    lab = Lab.attach(root)
    lab.require(wants.clusters)
    return lab, False


def _lease(
    workplace: DrillContext, new: Beginning, actions: Iterable[DrillAction]
) -> Callable[[], AbstractContextManager[Lease | None]]:
    session = session_ms(action.outage_s for action in actions)

    def take() -> Lease:
        resumed = (workplace.run_dir / JOURNAL).exists()
        target = workplace.cluster(workplace.flow.target)
        wait_s = session / 1000 + _RESUME_WAIT_S if resumed else 0.0
        source = workplace.clusters.get(workplace.flow.source)
        folder = workplace.run_dir
        return Lease(
            target,
            workplace.flow,
            folder.name,
            session_timeout_ms=session,
            wait_s=wait_s,
            folder=folder,
            source=source,
            new=new,
        )

    return take
