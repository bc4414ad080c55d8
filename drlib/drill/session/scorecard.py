"""The scorecard of a run, from its journal and from what its steps kept.

Rules: a run that did not reach its end has a check that says so, and no pass. A drill is judged by what its steps and its
hypothesis checked; records that were not counted are None. Objectives are checked as `endings` does.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rehearsal import SHADOW
from drlib.drill.actions.groups.rules import sum_known
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.plan import shown
from drlib.drill.plan.plan import Drill, Plan
from drlib.drill.plan.progress import Noted, Outcome
from drlib.drill.readiness import gate
from drlib.drill.run import outcome as endings
from drlib.drill.run import request
from drlib.drill.step import step_output as details
from drlib.drill.testbed import sampler
from drlib.errors import ObjectiveMissed, UsageError
from drlib.lab.environment import environment_at
from drlib.runs import folder as folders
from drlib.runs import journal
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import JOURNAL, Line
from drlib.runs.scorecard import GroupScore, PartitionOffsets, Records, RtoSeconds, Scorecard

GATE: Final = "readiness gate"
ENDED: Final = "the drill ran to its end"


def scorecard(plan: Plan, run_dir: Path, error: BaseException | None = None) -> Scorecard:
    """The scorecard of the run in `run_dir` so far. `error` is what ended it, if something did."""
    lines = journal.read(run_dir / JOURNAL) if (run_dir / JOURNAL).exists() else ()
    drill = plan.drill
    whole = details.joined(details.read_part(run_dir, step.name) for step in drill.steps)
    rto, rpo = endings.measured(lines)
    rto, rpo = _newer(whole.rto_seconds, rto), whole.rpo or rpo
    checks = (
        *_gate(lines),
        *_steady(drill, lines),
        *whole.checks,
        *verdicts.objective_checks(drill.objectives, rto, rpo),
        *verdicts.loss_checks(drill.objectives, rpo, whole.records),
        _ended(lines, error),
    )
    times = [int(datetime.fromisoformat(line.at).timestamp() * 1000) for line in lines]
    return Scorecard(
        runbook=drill.name,
        run_id=run_dir.name,
        verdict=verdicts.overall(checks, verdicts.lost_records(whole.records, rpo)),
        rto_seconds=rto,
        rpo=rpo,
        records=whole.records or Records(),
        groups=whole.groups or _groups(run_dir, drill.flow.target),
        clients=whole.clients,
        checks=checks,
        objectives=drill.objectives,
        started_ms=times[0] if times else clock.now_ms(),
        finished_ms=times[-1] if times else clock.now_ms(),
        marks=tuple(sorted(whole.marks, key=lambda mark: mark.at_ms)),
        samples=whole.samples or sampler.read(run_dir),  # of a drill that did not come to where they are kept
        partitions=_partitions(whole.partitions),
        lost_examples=whole.lost_examples,
        tables=whole.tables,
        environment={**whole.environment, "plan": plan.hash, **_shown(drill, run_dir), "flow": str(drill.flow)},
    )


def _shown(drill: Drill, run_dir: Path) -> dict[str, str]:
    """The drill's mode and, where it is known which clusters it is on, what its banner says."""
    try:
        asked = request.find(run_dir)
    except UsageError:
        asked = None
    known = None if asked is None else environment_at(asked.properties, lab=asked.lab_dir is not None)
    facts = {} if known is None else shown.banner(drill, known).facts()
    return {"mode": shown.mode_word(drill.mode, known), **facts}


def write(plan: Plan, run_dir: Path, error: BaseException | None) -> None:
    """Conclude the folder `run_dir` with it, unless the run was refused before its start and has no journal."""
    if (run_dir / JOURNAL).exists():
        folders.conclude(run_dir, scorecard(plan, run_dir, error))


def _newer(part: RtoSeconds | None, reported: RtoSeconds) -> RtoSeconds:
    """What a step keeps has the stages; what it reported is the figure where it kept none."""
    return part if part is not None and (part.total is not None or reported.total is None) else reported


def _partitions(rows: Sequence[PartitionOffsets]) -> tuple[PartitionOffsets, ...]:
    """One row for each partition: what a later step counted, with the seconds of an earlier one where it has none."""
    found: dict[tuple[str, int], PartitionOffsets] = {}
    for row in rows:
        key, before = (row.topic, row.partition), found.get((row.topic, row.partition))
        if before is not None and not row.basis:
            seconds = {name: getattr(before, name) for name in ("at_least_seconds", "at_most_seconds", "basis")}
            row = row.model_copy(update=seconds)
        found[key] = row
    return tuple(found[key] for key in sorted(found))


def _groups(run_dir: Path, target: str) -> tuple[GroupScore, ...]:
    """The groups that were moved, or rehearsed, with the kinds of their positions; what each read again is not counted."""
    moves = decided.read(run_dir, target) or decided.read(run_dir, target, SHADOW) or ()
    kinds: dict[str, Counter[str]] = {}
    predicted: dict[str, list[int | None]] = {}
    for move in moves:
        kinds.setdefault(move.group, Counter())[move.kind.value] += 1
        predicted.setdefault(move.group, []).append(move.re_reads)
    for share in share_moves.kept(run_dir, target, "groups") or ():
        name = f"{share.group} (share group)"
        kinds.setdefault(name, Counter())[share.kind.value] += 1
        predicted.setdefault(name, []).append(share.redelivered)
    return tuple(
        GroupScore(group=group, re_read_at_most=sum_known(predicted[group]), positions=dict(kinds[group]))
        for group in sorted(kinds)
    )


def _gate(lines: Sequence[Line]) -> list[Check]:
    """The check of the readiness gate; none where no gate applied. A skipped gate makes the verdict conditional."""
    for line in lines:
        if line.event == Noted.RUN_STARTED and (gate_result := line.data.get("readiness")):
            skipped = str(gate_result).startswith(gate.SKIPPED)
            verdict = Verdict.CONDITIONS if skipped else Verdict.PASS
            return [Check(name=GATE, verdict=verdict, evidence=str(gate_result))]
    return []


def _steady(drill: Drill, lines: Sequence[Line]) -> list[Check]:
    checks = []
    for when in ("before", "after") if drill.hypothesis else ():
        name = f"steady state {when} the drill"
        for line in reversed(lines):
            if line.data.get("detail") != when:
                continue
            if line.event == Noted.HYPOTHESIS_HELD:
                titles = ", ".join(expectation.title for expectation in drill.hypothesis)
                checks.append(Check(name=name, verdict=Verdict.PASS, evidence=titles))
                break
            if line.event == Noted.HYPOTHESIS_FAILED:
                evidence = f"{line.data['expectation']}: {line.data['evidence']}"
                checks.append(Check(name=name, verdict=Verdict.FAIL, evidence=evidence))
                break
        else:
            checks.append(Check(name=name, verdict=Verdict.UNKNOWN, evidence="it was not looked at"))
    return checks


def _ended(lines: Sequence[Line], error: BaseException | None) -> Check:
    ended = next((line for line in reversed(lines) if line.event == Noted.RUN_ENDED), None)
    if ended is None:
        evidence = str(error) if error is not None else "it was left before its end"
        return Check(name=ENDED, verdict=Verdict.UNKNOWN, evidence=evidence)
    if ended.data["detail"] == Outcome.PASSED:
        done = {line.data["step"] for line in lines if line.event == Noted.STEP_SUCCEEDED}
        return Check(name=ENDED, verdict=Verdict.PASS, evidence=f"{len(done)} steps done")
    evidence = str(error) if error is not None and not isinstance(error, ObjectiveMissed) else str(ended.data["detail"])
    return Check(name=ENDED, verdict=Verdict.FAIL, evidence=evidence)
