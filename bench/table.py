"""Results for people: a table per workload in the terminal, and the same as Markdown for the documentation.

Rules: pure; a number is a median with its smallest and largest beside it where there was more than one run; a run that
failed is shown with its reason. Not for: pictures (`page`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.goals import Verdict, judge
from bench.results import METRICS, Results, Row, Run, value
from bench.workloads import FLOOR, WORKLOADS

BEGIN: Final = "<!-- results -->"
END: Final = "<!-- /results -->"


def number(x: float) -> str:
    """Three significant digits, no exponent."""
    if x == 0 or abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def cell(row: Row | None) -> str:
    """`12.3 (11.9-14.0)`."""
    if row is None:
        return "-"
    spread = "" if row.runs == 1 else f" ({number(row.min)}-{number(row.max)})"
    return number(row.median) + spread


def outcome(verdict: Verdict) -> str:
    """What was found, in the goal's own terms."""
    if verdict.found is None:
        return "not measured"
    return f"{number(verdict.found)}{' x' if verdict.goal.against else ''}"


def engines_of(rows: Sequence[Row], workload: str) -> list[str]:
    return list(dict.fromkeys(row.engine for row in rows if row.workload == workload))


def metrics_of(rows: Sequence[Row], workload: str) -> list[str]:
    there = {row.metric for row in rows if row.workload == workload}
    return [metric for metric in METRICS if metric in there]


def quietness(runs: Sequence[Run], workload: str) -> str:
    """How busy the machine was with other things while engines ran."""
    mine = [run for run in runs if run.workload == workload and run.metrics and run.engine != FLOOR]
    if not mine:
        return ""
    others = [run.other_load for run in mine]
    loads = [run.load_before for run in mine]
    return (
        f"load before {number(min(loads))} to {number(max(loads))}, "
        f"others' use meanwhile {number(min(others))} to {number(max(others))} cores"
    )


def terminal(results: Results) -> Group:
    """Everything, for a rich console."""
    rows = results.rows()
    parts: list[Table | Text] = []
    for workload in dict.fromkeys(run.workload for run in results.runs):
        engines = engines_of(rows, workload)
        table = Table(title=f"({workload}) {_title(workload)}: {results.sizes.get(workload, '')}", title_justify="left")
        table.add_column("")
        for engine in engines:
            table.add_column(engine, justify="right")
        for metric in metrics_of(rows, workload):
            cells = [cell(value(rows, workload, engine, metric)) for engine in engines]
            table.add_row(f"{metric}, {METRICS[metric][0]}", *cells)
        parts.append(table)
        parts.append(Text(quietness(results.runs, workload), style="dim"))
        parts += [Text(line, style="red") for line in problems(results.runs, workload)]
    goals = Table(title="Goals", title_justify="left")
    for column in ("workload", "goal", "found", ""):
        goals.add_column(column)
    for verdict in judge(rows):
        goals.add_row(verdict.goal.workload, verdict.goal.text, outcome(verdict), word(verdict))
    return Group(*parts, goals)


def word(verdict: Verdict) -> str:
    return {True: "reached", False: "missed", None: ""}[verdict.met]


def problems(runs: Sequence[Run], workload: str) -> list[str]:
    return [f"{run.engine}: {run.problem.splitlines()[0]}" for run in runs if run.workload == workload and run.problem]


def markdown(results: Results) -> str:
    """The tables of docs/performance.md."""
    rows = results.rows()
    out = [_machine(results), ""]
    out += ["| workload | goal | found | |", "|---|---|---|---|"]
    out += [f"| {v.goal.workload} | {v.goal.text} | {outcome(v)} | {word(v)} |" for v in judge(rows)]
    for workload in dict.fromkeys(run.workload for run in results.runs):
        engines = engines_of(rows, workload)
        out += ["", f"**({workload}) {_title(workload)}**: {results.sizes.get(workload, '')}.", ""]
        if engines:
            out += ["| | " + " | ".join(engines) + " |", "|---|" + "---:|" * len(engines)]
        for metric in metrics_of(rows, workload):
            cells = (cell(value(rows, workload, engine, metric)) for engine in engines)
            out.append(f"| {metric}, {METRICS[metric][0]} | " + " | ".join(cells) + " |")
        note = [quietness(results.runs, workload), *problems(results.runs, workload)]
        out += ["", " · ".join(filter(None, note))]
    return "\n".join(out) + "\n"


def placed(document: str, results: Results) -> str:
    """`document` with the tables between its two marks replaced. Raises `ValueError` when it has no such marks."""
    before, mark, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the document has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown(results)}{END}{after}"


def _machine(results: Results) -> str:
    m = results.machine
    days = sorted({run.at[:10] for run in results.runs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"Run on {when}: {m.cores} cores ({m.cpu}), {m.memory_gb:g} GB, Python {m.python}, Java {m.java}, "
        f"Kafka and MirrorMaker 2 {m.kafka}, drlib {m.commit}."
    )


def _title(workload: str) -> str:
    return WORKLOADS[workload].title if workload in WORKLOADS else ""
