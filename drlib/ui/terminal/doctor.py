"""Render the readiness of flows for a terminal: the score, then findings with evidence and fix, worst first.

Rules: while the source is lost the head line says whether the gate of an emergency is open. The verdict is a word, with colour
where there is colour; a check that is ok or unknown takes one line; of many findings of one check the first few are shown and
the rest counted. A fix has its own line, and is not repeated. Text from outside never becomes markup.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.drill.readiness.score import CHECKS, HALVES, WITHOUT_SOURCE, WORST_FIRST, Finding, Readiness, Severity

SHOWN: Final = 3  # findings of one check
COLOURS: Final = {
    Severity.OK: "green",
    Severity.ADVICE: "cyan",
    Severity.WARN: "yellow",
    Severity.CRITICAL: "bold red",
    Severity.UNKNOWN: "magenta",
}


def render_readiness(flows: Sequence[Readiness], minimum: int) -> RenderableType:
    """Every flow, one below the other."""
    parts: list[RenderableType] = []
    for readiness in flows:
        parts += [_head(readiness, minimum), Text(), _table(readiness), Text()]
    return Group(*parts)


def _head(readiness: Readiness, minimum: int) -> Text:
    ready = readiness.ready(minimum)
    counted = [
        f"{number} {verdict}"
        for verdict in WORST_FIRST
        if (number := sum(readiness.severity(check.id) is verdict for check in CHECKS))
    ]
    counts = (f"  {formats.clock(readiness.at_ms)[:8]} UTC\n  {', '.join(counted)}", "dim")
    if readiness.source_lost:
        open_gate = not readiness.emergency
        left = f"\n  not determined: {', '.join(readiness.not_determined)}" if readiness.not_determined else ""
        return Text.assemble(
            (" SOURCE LOST ", "bold reverse magenta"),
            (f"  {formats.one_line(readiness.flow)}", "bold"),
            "  gate of an emergency failover: ",
            ("open" if open_gate else "closed", f"bold {'green' if open_gate else 'red'}"),
            f", the target scores {readiness.score} of 100",
            counts,
            (left, "dim"),
        )
    return Text.assemble(
        (" READY " if ready else " NOT READY ", f"bold reverse {'green' if ready else 'red'}"),
        (f"  {formats.one_line(readiness.flow)}", "bold"),
        f"  score {readiness.score} of 100, {minimum} required",
        counts,
    )


def _table(readiness: Readiness) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("verdict", no_wrap=True)
    table.add_column("costs", justify="right", no_wrap=True)
    table.add_column("check, evidence, fix", overflow="fold")
    said: set[str] = set()
    for check, findings in groupby(readiness.worst_first(), key=lambda finding: finding.check):
        of_check = list(findings)
        costs = _costs(readiness, check, of_check[0])
        for number, finding in enumerate(of_check[:SHOWN]):
            verdict = Text(finding.severity.value, style=COLOURS[finding.severity])
            repeated = number > 0 and of_check[number - 1].fix == finding.fix
            if finding.severity is Severity.UNKNOWN:
                repeated = repeated or finding.fix in said
                said.add(finding.fix)
            lines = _lines(readiness, finding, first=number == 0, fix="" if repeated else finding.fix)
            table.add_row(verdict, costs if number == 0 else "", Group(*lines))
        if len(of_check) > SHOWN:
            table.add_row("", "", Text(f"and {len(of_check) - SHOWN:,} more, all in --json", style="dim"))
    return table


def _costs(readiness: Readiness, check: str, finding: Finding) -> str:
    """Points that the check's worst finding costs; empty for the others, "-" for what does not count without the source."""
    if finding.severity is not readiness.severity(check) or HALVES[finding.severity] == HALVES[Severity.OK]:
        return ""
    if readiness.source_lost and check not in WITHOUT_SOURCE:
        return "-"
    lost = finding.weight / 2 if finding.severity is Severity.WARN else finding.weight
    return f"{lost:g}"


def _lines(readiness: Readiness, finding: Finding, *, first: bool, fix: str) -> Iterator[Text]:
    if finding.severity is Severity.OK:
        yield Text.assemble((finding.title, ""), (f": {formats.one_line(finding.evidence)}", "dim"))
        return
    about = f"{formats.one_line(finding.entity)}: " if finding.entity and finding.entity != readiness.flow else ""
    evidence = f"{about}{formats.one_line(finding.evidence)}"
    if first and finding.severity is Severity.UNKNOWN:
        yield Text.assemble((finding.title, "bold"), f": {evidence}")
    else:
        if first:
            yield Text(finding.title, style="bold")
        yield Text(evidence)
    if fix:
        yield Text(formats.one_line(fix), style="cyan")
