"""What is shown before a run begins: the runbook's title with the flow put in, and the banner, LAB or PRODUCTION.

Rules: nothing is asked of a cluster and nothing is changed; what a run cannot mean is refused here already, as it is when the
run is prepared. Where only the notebook knows which clusters it is on, there is no banner yet.
Not for: the plan (`plans`), and choosing the flow itself (`drlib.lab.choose_flow`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan import shown
from drlib.drill.run import registry
from drlib.drill.run.request import ClusterTarget
from drlib.lab import choose_flow
from drlib.lab.environment import LAB_ONLY, READS, Banner, Environment, environment_at
from drlib.model import Flow
from drlib.runbook import open_drill as opening
from drlib.runbook.file import clusters, drill_section
from drlib.runbook.file.model import Runbook, Value
from drlib.runbook.plans import targeted, values


@dataclass(frozen=True, slots=True)
class Introduction:
    """`banner` is None where the clusters are not known yet."""

    title: str
    banner: Banner | None = None


def introduce(
    book: Runbook,
    arguments: Mapping[str, Value],
    target: ClusterTarget,
    *,
    lab: bool = False,
    place: Path | None = None,
) -> Introduction:
    """The introduction of a run of `book` at `target`.

    `lab`: on a lab that is going to be started for it. `place`: the folder of a run that was planned. Raises `UsageError`.
    """
    target = targeted(target, arguments)
    if target == ClusterTarget() and not lab:
        target = ClusterTarget(clusters.own_file(book))
    given = {**book.parameters, **values(book, arguments)}
    environment = environment_at(target.properties, lab=lab or target.lab_dir is not None)
    if environment is None:
        return Introduction(drill_section.title(book.title, None))
    if book.drill is None:
        flow = _analysed(book, target, str(given.get("flow", "")), lab=lab)
        does = LAB_ONLY if environment is Environment.LAB else READS
        return Introduction(drill_section.title(book.title, flow), Banner(environment, str(flow), does))
    asked = drill_section.asked_flow(book.drill, given)
    if asked is None:
        flow = Flow.parse(book.drill.flow)
    elif lab:
        flow = choose_flow.of_lab(book.lab.to_start, asked)
    else:
        flow = opening.chosen_flow(book, target, given, place=place, start_lab=False) or Flow.parse(book.drill.flow)
    drill = drill_section.drill(book.drill, book.name, book.objectives, given, flow)
    registry.parse_drill(drill)
    return Introduction(drill_section.title(book.title, flow), shown.banner(drill, environment))


def _analysed(book: Runbook, target: ClusterTarget, asked: str, *, lab: bool) -> Flow:
    if target.properties is not None:
        command = opening.command_of(book, target.properties)
        return choose_flow.of_file(load_mirror_settings(target.properties), asked, command, enabled=False)
    aliases = book.lab.to_start
    if not lab and target.lab_dir is not None:
        aliases = choose_flow.lab_aliases(target.lab_dir, aliases)
    return choose_flow.of_lab(aliases, asked)
