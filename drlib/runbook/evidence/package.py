"""What an evidence package says, as `evidence.json` has it: frozen values, and which articles call for which of them.

Rules: a value that no run has is None and listed in `missing`, never filled in. Times are UTC, ISO 8601; seconds and records
as in a scorecard. `FIELDS` names articles of Regulation (EU) 2022/2554 (DORA) and of Directive (EU) 2022/2555 (NIS2); whether
what is here satisfies them is for the auditor to say.
"""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from drlib.runs.check import Verdict
from drlib.runs.scorecard import Kind, Records

_NIS2: Final = "NIS2 21(2)(c)"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Field(_Frozen):
    """One kind of what the package has: `name` is its key in the JSON."""

    name: str
    articles: tuple[str, ...]
    what: str


FIELDS: Final = (
    Field(
        name="systems",
        articles=("DORA 11(6)", "DORA 24(6)", _NIS2),
        what="the enabled flows, and when a drill of each last came to a verdict: tested at least yearly",
    ),
    Field(
        name="scenario",
        articles=("DORA 11(6)", "DORA 25(1)", _NIS2),
        what="what each drill did: the runbook, its mode, its steps in order, and the state that it had to find and to leave",
    ),
    Field(
        name="objectives",
        articles=("DORA 11(2)", "DORA 12(6)", _NIS2),
        what="recovery time (RTO) and recovery point (RPO): the objective and the result of each drill",
    ),
    Field(
        name="records",
        articles=("DORA 12(7)",),
        what="integrity of the data after recovery: records lost, duplicated, out of order, and the checks that counted them",
    ),
    Field(name="gaps", articles=("DORA 24(5)", "DORA 11(6)"), what="checks that failed or could not be made"),
    Field(
        name="remediation",
        articles=("DORA 24(5)",),
        what="the later run of the same runbook and flow in which the same check passed; open where there is none",
    ),
    Field(name="trend", articles=("DORA 11(6)", "DORA 24(1)"), what="how RTO and RPO of each runbook changed"),
    Field(name="overdue", articles=("DORA 11(6)", "DORA 24(6)"), what="runbooks that were due and not run"),
    Field(
        name="hashes",
        articles=("DORA 11(8)",),
        what="SHA-256 of each run's manifest, report and plan, and the last hash of its journal's chain: accessible records",
    ),
)

NOT_RECORDED: Final = (
    Field(
        name="remediation plan",
        articles=("DORA 24(5)",),
        what="owner, priority and due date of what is done about a gap",
    ),
    Field(
        name="independence of testers", articles=("DORA 24(4)",), what="who tested, and of whom they are independent"
    ),
    Field(
        name="business functions",
        articles=("DORA 11(5)", "DORA 12(6)", "DORA 24(6)"),
        what="which functions each flow supports, and which of them are critical or important",
    ),
    Field(name="backups", articles=("DORA 12(2)", _NIS2), what="restoration from backups: a mirror is none"),
    Field(
        name="crisis management",
        articles=("DORA 11(7)", _NIS2),
        what="who decides and who communicates in a crisis",
    ),
)


class Result(_Frozen):
    """One objective of a run and what was measured. `met` None: there is no objective, or it was not measured."""

    name: str
    objective: float | None
    result: float | None
    at_least: float | None = None
    met: bool | None
    why: str = ""


class Remediation(StrEnum):
    VALIDATED = "validated"  # the same check passed in a later run
    OPEN = "open"


class Gap(_Frozen):
    """`validated_by` is the run that shows the remediation; empty while it is open."""

    check: str
    verdict: Verdict
    evidence: str
    remediation: Remediation
    validated_by: str = ""


class Scenario(_Frozen):
    """`mode` as the scorecard says; `steps` and `hypothesis` in the plan's order, none where no plan was kept."""

    mode: str | None
    steps: tuple[str, ...]
    hypothesis: tuple[str, ...]


class Hashes(_Frozen):
    """SHA-256. None: the run has no such file."""

    manifest: str
    report: str | None
    plan: str | None
    journal: str | None  # the last hash of the chain


class RunEvidence(_Frozen):
    """One verified run."""

    run: str
    runbook: str
    flow: str
    kind: Kind
    environment: str | None
    started: str
    finished: str
    verdict: Verdict
    scenario: Scenario
    objectives: tuple[Result, ...]
    records: Records
    conditions: tuple[str, ...]
    gaps: tuple[Gap, ...]
    hashes: Hashes


class System(_Frozen):
    """A flow and its drills in the year; `drills` that came to a verdict."""

    flow: str
    drills: int
    passed: int
    last_drill: str | None


class TrendEvidence(_Frozen):
    """Of one runbook on one flow. A change is a share of the median before; None where it has none."""

    runbook: str
    flow: str
    drills: int
    rto: str
    rto_change: float | None
    rpo: str
    rpo_change: float | None


class Overdue(_Frozen):
    """`since` None: it was never run."""

    runbook: str
    every_hours: int
    since: str | None


class Unverified(_Frozen):
    """A run that cannot be relied on, with each file and what is wrong with it."""

    run: str
    evidence: str
    differences: tuple[str, ...]


class Missing(_Frozen):
    """A field that a run, or the year, does not have."""

    of: str
    field: str
    why: str


class Package(_Frozen):
    """`verdict`: fail where a run is not as it was written; unknown where a flow has no drill with a verdict; conditions where
    something is open, overdue or missing. `left_out` are verified runs on other clusters or flows."""

    year: int
    made: str
    until: str
    verdict: Verdict
    why: tuple[str, ...]
    systems: tuple[System, ...]
    runs: tuple[RunEvidence, ...]
    trend: tuple[TrendEvidence, ...]
    overdue: tuple[Overdue, ...]
    unverified: tuple[Unverified, ...]
    not_finished: tuple[str, ...]
    left_out: tuple[str, ...]
    missing: tuple[Missing, ...]
    not_recorded: tuple[Field, ...] = NOT_RECORDED
    fields: tuple[Field, ...] = FIELDS
