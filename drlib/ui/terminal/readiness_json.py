"""Render the readiness of flows as the JSON of `drlib doctor --json`: every finding, worst first.

Rules: field names and types are a public interface; the fields here are complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from drlib.drill.readiness.score import Readiness, Severity
from drlib.drill.session.unfinished_runs import NONE, UnfinishedRun, UnfinishedRuns


@dataclass(frozen=True)
class FindingRow:
    """One finding. `expires_at_ms`: when the evidence expires."""

    id: str
    entity: str
    title: str
    verdict: Severity
    weight: int
    evidence: str
    fix: str
    expires_at_ms: int


@dataclass(frozen=True)
class FlowRow:
    """One flow. `ready`: it passes the gate with `minimum`.

    `source_lost`: the source does not answer, or in part, so `score` is that of the target; `emergency_gate` is then "open" or
    "closed", else "". `not_determined`: checks without an answer. `unfinished_run` is null where there is none, and where it is
    unknown: then `unfinished_unknown` says why.
    """

    flow: str
    at_ms: int
    score: int
    minimum: int
    ready: bool
    findings: tuple[FindingRow, ...]
    source_lost: bool
    emergency_gate: str
    not_determined: tuple[str, ...]
    unfinished_run: UnfinishedRun | None = None
    unfinished_unknown: str = ""


_ROWS = TypeAdapter(tuple[FlowRow, ...])


def as_json_text(flows: Sequence[Readiness], minimum: int, unfinished: UnfinishedRuns = NONE) -> str:
    """A JSON list of `FlowRow`."""
    return _ROWS.dump_json(tuple(_row(readiness, minimum, unfinished) for readiness in flows), indent=2).decode()


def _row(readiness: Readiness, minimum: int, unfinished: UnfinishedRuns) -> FlowRow:
    findings = tuple(
        FindingRow(f.check, f.entity, f.title, f.severity, f.weight, f.evidence, f.fix, f.expires_ms)
        for f in readiness.worst_first()
    )
    gate = ("closed" if readiness.emergency else "open") if readiness.source_lost else ""
    return FlowRow(
        readiness.flow,
        readiness.at_ms,
        readiness.score,
        minimum,
        readiness.ready(minimum),
        findings,
        readiness.source_lost,
        gate,
        readiness.not_determined,
        unfinished.of(readiness.flow),
        dict(unfinished.unknown).get(readiness.flow, ""),
    )
