"""An evidence package as Markdown, for people. Pure.

Rules: names, evidence and messages are code spans; what is missing is said where it would be. The JSON has the same values.
"""

from collections.abc import Iterable, Sequence

from drlib import formats
from drlib.outgoing.markdown import code, table
from drlib.runbook.evidence.package import Field, Package, Result, RunEvidence
from drlib.runs.check import Verdict

_MEANING = {
    Verdict.PASS: "Every run is as it was written, every flow was tested, and nothing is open.",
    Verdict.CONDITIONS: "Every run is as it was written, and every flow was tested; what is listed below is open.",
    Verdict.FAIL: "At least one run is not as it was written: do not rely on this package.",
    Verdict.UNKNOWN: "Nothing is proven: at least one flow has no drill that came to a verdict.",
}


def render(package: Package) -> str:
    """The page."""
    lines = [
        f"# Evidence of disaster-recovery drills, {package.year}: {package.verdict.upper()}",
        "",
        _MEANING[package.verdict],
        f"Made {package.made} from runs up to {package.until}.",
        "",
        *(f"- {code(why)}" for why in package.why),
        "",
        *_section(
            "Runs that are not verified",
            ("run", "evidence", "what is wrong"),
            ((_cell(each.run), each.evidence, _cell("; ".join(each.differences))) for each in package.unverified),
        ),
        *_section(
            "Systems",
            ("flow", "drills with a verdict", "passed", "last drill"),
            (
                (_cell(each.flow), f"{each.drills:,}", f"{each.passed:,}", each.last_drill or "none")
                for each in package.systems
            ),
        ),
        *_section("Runs", _RUNS, (_run(each) for each in package.runs)),
        *_section(
            "Scenarios",
            ("run", "mode", "steps", "steady state"),
            (
                (
                    _cell(each.run),
                    _cell(each.scenario.mode or "") or "missing",
                    _cell(", ".join(each.scenario.steps)) or "missing",
                    _cell(", ".join(each.scenario.hypothesis)) or "none",
                )
                for each in package.runs
            ),
        ),
        *_section(
            "Gaps and remediation",
            ("run", "check", "verdict", "evidence", "remediation"),
            (
                (
                    _cell(each.run),
                    _cell(gap.check),
                    gap.verdict.value,
                    _cell(gap.evidence),
                    f"validated by {_cell(gap.validated_by)}" if gap.validated_by else "open",
                )
                for each in package.runs
                for gap in each.gaps
            ),
        ),
        *_section(
            "Conditions",
            ("run", "condition"),
            ((_cell(each.run), _cell(condition)) for each in package.runs for condition in each.conditions),
        ),
        *_section(
            "Trend",
            ("runbook", "flow", "drills", "RTO", "RPO"),
            (
                (
                    _cell(each.runbook),
                    _cell(each.flow),
                    f"{each.drills:,}",
                    _change(each.rto, each.rto_change),
                    _change(each.rpo, each.rpo_change),
                )
                for each in package.trend
            ),
        ),
        *_section(
            "Overdue",
            ("runbook", "every", "since"),
            (
                (_cell(each.runbook), formats.duration(each.every_hours * 3600), each.since or "never run")
                for each in package.overdue
            ),
        ),
        *_section(
            "Missing",
            ("of", "field", "why"),
            ((_cell(each.of), each.field, _cell(each.why)) for each in package.missing),
        ),
        *_fields("Not recorded by drlib", package.not_recorded),
        *_list("Not finished", package.not_finished),
        *_list("Left out: other flows or other clusters", package.left_out),
        *_section(
            "Hashes",
            ("run", "manifest", "report", "plan", "last of the journal's chain"),
            (
                (
                    _cell(each.run),
                    *(
                        code(hashed) if hashed else "none"
                        for hashed in (each.hashes.manifest, each.hashes.report, each.hashes.plan, each.hashes.journal)
                    ),
                )
                for each in package.runs
            ),
        ),
        *_fields("What this is for", package.fields),
    ]
    return "\n".join(lines).rstrip() + "\n"


_RUNS = (
    "run",
    "runbook",
    "flow",
    "on",
    "verdict",
    "RTO in seconds",
    "RPO in records",
    "RPO in seconds",
    "lost",
    "report",
)


def _run(each: RunEvidence) -> tuple[str, ...]:
    results = {result.name: result for result in each.objectives}
    return (
        _cell(each.run),
        _cell(each.runbook),
        _cell(each.flow),
        _cell(each.environment or "") or "missing",
        each.verdict.value,
        *(_result(results.get(name)) for name in ("RTO in seconds", "RPO in records", "RPO in seconds")),
        formats.count(each.records.lost),
        "yes" if each.hashes.report else "missing",
    )


def _result(result: Result | None) -> str:
    """ "8.145 of at most 30", with what is missing named."""
    if result is None:
        return "does not apply"
    measured = "not measured" if result.result is None else formats.cell(result.result)
    if result.at_least is not None and result.result is not None:
        measured = f"{formats.cell(result.at_least)} to {measured}"
    if result.objective is None:
        return f"{measured}, no objective"
    judged = {True: "met", False: "missed", None: "not judged"}[result.met]
    return f"{measured} of at most {formats.cell(result.objective)}, {judged}"


def _change(direction: str, change: float | None) -> str:
    return direction if change is None else f"{direction} ({change:+.0%})"


def _fields(title: str, fields: Iterable[Field]) -> list[str]:
    return _section(title, ("field", "articles", "what"), ((f.name, ", ".join(f.articles), f.what) for f in fields))


def _list(title: str, names: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {code(name)}" for name in names), ""] if names else []


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    found = list(rows)
    return [f"## {title}", "", *(table(heads, found) if found else ["None."]), ""]


def _cell(text: str) -> str:
    return code(text, cell=True)
