"""`drlib init`: the first runbooks for the clusters of a properties file, and what to do next.

Rules: the clusters are only read, in bounded time. Objectives are options, or asked for on a terminal, and so are the names of
mirror topics where they can still be chosen; nothing else is. The properties file is the user's: its lines are printed. What is
kept instead of replaced is named with the reason. At the end the doctor says what is worst now, at most `WORST` findings.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib import decoding
from drlib.cli.drill.confirmation import ask
from drlib.config.replication_policy import Names
from drlib.errors import UsageError
from drlib.formats import one_line
from drlib.outgoing.terminal import can_ask, show

if TYPE_CHECKING:
    from drlib.config.settings import MirrorSettings
    from drlib.runbook.first_runbooks.folder import Outcome
    from drlib.runbook.first_runbooks.observation import FlowFacts
    from drlib.runs.scorecard import Objectives

WORST: Final = 5
DOCTOR_S: Final = 20.0
NONE: Final = "none"


def init(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to write them. Default: runbooks/ beside FILE.", metavar="DIR")
    ] = None,
    flow: Annotated[str | None, typer.Option(help="One flow, e.g. 'paris->lyon'. Default: all enabled flows.")] = None,
    rto: Annotated[
        str | None, typer.Option(help="Objective of a failover, such as 5m; none: without.", metavar="TIME")
    ] = None,
    rpo: Annotated[
        str | None, typer.Option(help="Records that may be lost, in time: 30s; none: without.", metavar="TIME")
    ] = None,
    rpo_records: Annotated[
        str | None, typer.Option(help="Records that may be lost; none: without.", metavar="N")
    ] = None,
    names: Annotated[
        Names | None,
        typer.Option(
            help="How mirror topics are named, instead of asking; the file is refused where it names them otherwise.",
            metavar="identical|prefixed",
        ),
    ] = None,
    force: Annotated[
        list[str] | None,
        typer.Option(help="Replace this file of DIR, although it was edited; repeat for more.", metavar="NAME"),
    ] = None,
    runs: Annotated[Path, typer.Option("--runs-dir", help="Where run folders are, for the doctor.")] = Path("runs"),
) -> None:
    """Look at the clusters of FILE and write runbooks for them: rehearsal, failover, change of roles, audit, lag report.

    Reads the clusters and changes nothing on them. A file in DIR that was edited, or that drlib init did not write, is kept.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.runbook.first_runbooks import folder as first
    from drlib.runbook.first_runbooks import naming, observation, observe, readme, runbooks
    from drlib.runs import folder as folders

    whole = load_mirror_settings(file)
    settings = _chosen(whole, flow)
    naming.refuse_other_names(whole, names)
    given = _parse(rto, rpo, rpo_records)  # a slip is named before anything is asked
    to = file.parent / "runbooks" if directory is None else directory
    notebooks = first.shipped_notebooks()
    folders.refuse_unusable(to)
    flows = [[each.flow for each in part.enabled_flows] for part in (whole, settings)]
    first.refuse_unknown(force or (), first.possible_files(flows[0], flows[1], notebooks))
    place = runbooks.Place(file.name, os.path.relpath(to, file.parent), first.drill_parameters(notebooks))
    aliases = dict.fromkeys(a for each in settings.enabled_flows for a in (each.flow.source, each.flow.target))
    show(one_line(f"Asking {', '.join(aliases)}, for at most {observe.ALL_S:g} s ..."), error=True)
    seen = observe.observe(settings)
    facts = observation.facts(settings, seen, whole)
    for line in readme.lines_of(facts):
        show(one_line(line))
    _names(whole, facts, names)
    for cluster in seen.values():
        if cluster.silence or cluster.in_part:
            show(one_line(f"{cluster.alias} did not answer: {cluster.silence or cluster.in_part}"))
        for why in cluster.unknown:
            show(one_line(f"not known of {cluster.alias}: {why}"))
    objectives = _objectives(given, first.known_objectives(to, facts))
    made = first.make(facts, place, objectives, notebooks)
    first.check(made)
    outcomes = first.write(made, to, force or ())
    _say(to, outcomes)
    _say_left(to, facts)
    show("\nNext:")
    typed = shlex.quote(str(file))
    for files in runbooks.names(facts)[:1]:
        show(one_line(f"  drlib doctor {typed}"))
        show(one_line(f"  drlib run {shlex.quote(str(to / files[runbooks.REHEARSE]))} {typed}"))
    _doctor(settings, runs)


def _chosen(settings: MirrorSettings, flow: str | None) -> MirrorSettings:
    """`settings` with the enabled flows that are asked for. Raises `UsageError` where there is none."""
    from dataclasses import replace

    from drlib.model import Flow

    if flow is not None:
        wanted = Flow.parse(flow)
        settings.flow(wanted.source, wanted.target)
        settings = replace(settings, flows=tuple(each for each in settings.flows if each.flow == wanted))
    if not settings.enabled_flows:
        raise UsageError(
            f"{settings.path} enables no flow" if flow is None else f"flow {flow} is not enabled in {settings.path}",
            "there is nothing to write runbooks for",
            f"Set '{flow or 'A->B'}.enabled = true'.",
        )
    return settings


def _names(settings: MirrorSettings, facts: Sequence[FlowFacts], names: Names | None) -> None:
    """Say how topics are named and what that costs; ask where it is open. Raises `UsageError` where the file says otherwise."""
    from drlib.config.explain import explain
    from drlib.runbook.first_runbooks import naming

    values = explain(settings.path, naming.KEY).values
    written = {
        value.scope: value.line for value in values if value.line and value.scope in {str(f.flow) for f in facts}
    }
    for line in naming.stated(settings, facts, written):
        show(one_line(line))
    if why := naming.why_not_asked(settings, facts, written):
        if not written:
            show(one_line(f"Names are not asked for: {why}."))
        return
    if names is None:
        for line in naming.question(settings, facts):
            show(one_line(line))
        if not can_ask():
            for line in naming.choices(settings):
                show(one_line(line))
            return
        names = Names(ask("Names of mirror topics", [*Names]))
        naming.refuse_other_names(settings, names)
    show(one_line(f"Write into the file, so that drlib init does not ask again: {naming.DEFAULT_LINE}"))


def _parse(rto: str | None, rpo: str | None, rpo_records: str | None) -> dict[str, float | int | None]:
    """The objectives that were given, None for one that is to be none. Raises `UsageError`."""
    from drlib.config.quantities import seconds

    given: dict[str, float | int | None] = {}
    if rto is not None:
        given["rto_seconds"] = None if rto.strip().lower() in ("", NONE) else seconds(rto, "RTO")
    if rpo is not None:
        given["rpo_seconds"] = None if rpo.strip().lower() in ("", NONE) else seconds(rpo, "RPO")
    if rpo_records is not None:
        try:
            none = rpo_records.strip().lower() in ("", NONE)
            given["rpo_records"] = None if none else decoding.integer(rpo_records.strip())
        except decoding.Undecodable as error:
            raise UsageError(f"'{rpo_records}' is not a number of records", str(error), "Write 0 or more.") from None
    return given


def _objectives(given: dict[str, float | int | None], known: Objectives) -> Objectives:
    """What was given, else what the runbook there has; on a terminal, where nothing was given, what is answered."""
    from drlib.runs.scorecard import Objectives

    if not given and can_ask():
        asked = (
            ("RTO of a failover, such as 5m", known.rto_seconds, "s"),
            ("RPO in time, such as 30s", known.rpo_seconds, "s"),
            ("RPO in records, such as 0", known.rpo_records, ""),
        )
        answers = [
            typer.prompt(
                f"{what} (empty or {NONE}: no objective)",
                default="" if now is None else f"{now:g}{unit}",
                show_default=now is not None,
                err=True,
            )
            for what, now, unit in asked
        ]
        given = _parse(*answers)
    return Objectives.model_validate({**known.model_dump(), **given})


def _say(folder: Path, outcomes: dict[str, Outcome]) -> None:
    from drlib.runbook.first_runbooks.folder import Outcome

    written = [path for path, outcome in outcomes.items() if outcome is Outcome.WRITTEN]
    for path in written:
        show(one_line(f"written: {folder / path}"))
    if not written:
        show(one_line(f"nothing to write in {folder}"))
    for path, outcome in outcomes.items():
        if outcome not in (Outcome.WRITTEN, Outcome.UNCHANGED):
            show(one_line(f"{outcome.value}: {folder / path} (replace it: --force {shlex.quote(path)})"))


def _say_left(folder: Path, facts: Sequence[FlowFacts]) -> None:
    """Name runbooks from when the file enabled one flow: `drlib failover` and `drlib failback` take a flow's own first."""
    from drlib.runbook.first_runbooks import runbooks

    named = {kind: name for files in runbooks.names(facts) for kind, name in files.items()}
    left = [f"{kind}.yaml" for kind, name in named.items() if name != f"{kind}.yaml"]
    if left := [name for name in left if (folder / name).is_file()]:
        why = "now that several flows are enabled, each has files of its own. Move there what you edited, and delete these"
        show(one_line(f"left from one flow in {folder}: {', '.join(left)}: {why}"))


def _doctor(settings: MirrorSettings, runs: Path) -> None:
    """What is worst now, of all flows. A doctor that does not answer in time is said to be open."""
    from drlib.drill.readiness.checks.observations import Unanswered
    from drlib.drill.readiness.doctor import doctor
    from drlib.drill.readiness.observe.ask import ask_blocking
    from drlib.drill.readiness.score import MINIMUM, WORST_FIRST, Severity
    from drlib.kafka.admin.connect import blocking

    show(f"\ndrlib doctor, for at most {DOCTOR_S:g} s ...", error=True)
    report = blocking(ask_blocking(lambda: doctor(settings, runs=runs), DOCTOR_S))
    if isinstance(report, Unanswered):
        show(one_line(f"drlib doctor: {report.why}. {report.fix}"))
        return
    for readiness in report:
        state = "ready" if readiness.ready(MINIMUM) else "not ready"
        show(one_line(f"{readiness.flow}: {state}, score {readiness.score} of 100"))
    findings = [(each.flow, finding) for each in report for finding in each.worst_first()]
    findings = [(of, each) for of, each in findings if each.severity is not Severity.OK]
    findings.sort(key=lambda pair: (WORST_FIRST.index(pair[1].severity), -pair[1].weight))
    for of, each in findings[:WORST]:
        about = f" ({each.entity})" if each.entity and each.entity != of else ""
        show(one_line(f"  {each.severity.value}: {of}: {each.title}{about}: {each.evidence}"))
        if each.fix:
            show(one_line(f"    {each.fix}"))
    if len(findings) > WORST:
        show(one_line(f"  and {len(findings) - WORST} more: drlib doctor {shlex.quote(str(settings.path))}"))
