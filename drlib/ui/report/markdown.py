"""The report of a run as Markdown: what `report.html` has, without figures and without the notebook.

Rules: what did not pass comes first, as in the page; whatever a run's folder says is a code span. Complete: nothing is cut but
the journal, whose rest is counted. Pure.
"""

from collections.abc import Iterable, Sequence

from drlib import formats
from drlib.lab.environment import banner_of
from drlib.outgoing.markdown import code, table
from drlib.runs.journal import Line
from drlib.runs.scorecard import KeptTable, Kind, Scorecard
from drlib.ui import severity, words
from drlib.ui.report.timeline import MOST_LINES, moments


def render(card: Scorecard, journal: Sequence[Line], files: Sequence[tuple[str, int, str]]) -> str:
    """The report. `files` are (name, bytes, SHA-256)."""
    banner = banner_of(card.environment)
    rows = severity.rows(card)
    duration = (card.finished_ms - card.started_ms) / 1000 if card.started_ms and card.finished_ms else None
    lines = [
        f"# {words.VERDICTS[card.verdict]}: {code(card.runbook)} {code(card.run_id)}",
        "",
        *([f"{banner.word}: {code(banner.text)}", ""] if banner else []),
        words.meaning(card),
        f"{formats.moment(card.started_ms)} to {formats.moment(card.finished_ms)}, {formats.seconds(duration)} in all.",
        "",
        "## Checks",
        "",
        *table(
            ("state", "check", "evidence"),
            ((row.state.value, code(row.name, cell=True), code(row.evidence, cell=True)) for row in rows),
        ),
        "",
        *(_drill(card) if card.kind is Kind.DRILL else _analysis(card)),
        *_section("Lag", _LAG, _lag(card)),
        *(line for each in card.tables for line in _kept(each)),
        *_section("Appendix: timeline", ("time, UTC", "after", "step", "what"), _timeline(journal)),
        *([f"{len(journal) - MOST_LINES:,} more lines are in the journal.", ""] if len(journal) > MOST_LINES else []),
        *([f"The last hash of the journal's chain is `{journal[-1].hash}`.", ""] if journal else []),
        *_section(
            "Appendix: environment", ("what", "value"), (_cells(*item) for item in sorted(card.environment.items()))
        ),
        *_section(
            "Appendix: files",
            ("file", "bytes", "SHA-256"),
            ((code(name, cell=True), f"{size:,}", code(digest)) for name, size, digest in files),
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _drill(card: Scorecard) -> list[str]:
    goals, rto = card.objectives, card.rto_seconds
    objective_rpo = [
        formats.records(goals.rpo_records) if goals.rpo_records is not None else "",
        formats.seconds(goals.rpo_seconds) if goals.rpo_seconds is not None else "",
    ]
    rows = (
        (
            "recovery time (RTO)",
            code(words.served_again(rto), cell=True),
            "none" if goals.rto_seconds is None else formats.seconds(goals.rto_seconds),
        ),
        ("data at risk (RPO)", words.at_risk(card.rpo), ", ".join(filter(None, objective_rpo)) or "none"),
    )
    stages = ((name, meaning, formats.seconds(getattr(rto, name))) for name, meaning in words.STAGES.items())
    counts = card.records.model_dump()
    return [
        *_section("Objectives", ("what", "measured", "objective"), rows),
        *_section("Recovery time by stage", ("stage", "from, to", "time"), stages),
        *_section(
            "Records", tuple(name.replace("_", " ") for name in counts), [tuple(map(formats.count, counts.values()))]
        ),
        *_section(
            "Moments of the drill",
            ("moment", "UTC", "detail"),
            (
                (code(each.name, cell=True), formats.moment(each.at_ms), code(each.detail, cell=True))
                for each in card.marks
            ),
        ),
        *_section(
            "Groups",
            ("group", "read again", "skipped", "positions translated"),
            (
                (
                    code(each.group, cell=True),
                    words.re_read(each.re_read, each.re_read_at_most),
                    formats.count(each.skipped),
                    code(words.kinds(each.positions), cell=True),
                )
                for each in card.groups
            ),
        ),
        *_section(
            "Clients",
            _CLIENTS,
            (
                (
                    *_cells(words.client(each), each.version),
                    each.verdict.value,
                    words.after(each.wrote_after_s),
                    words.after(each.read_after_s),
                    *map(words.counted, (each.restarts, each.re_read, each.lost, each.skipped)),
                    words.sums(each),
                    code(each.why, cell=True),
                )
                for each in card.clients
            ),
        ),
        *_section(
            "Partitions",
            ("partition", "source end", "mirrored to", "target end", "not mirrored"),
            (
                (
                    code(f"{each.topic}-{each.partition}", cell=True),
                    *map(formats.count, (each.source_end, each.mirrored_to, each.target_end, each.unmirrored)),
                )
                for each in card.partitions
            ),
        ),
    ]


def _analysis(card: Scorecard) -> list[str]:
    counted = {name: n for name, n in card.records.model_dump().items() if n is not None}
    heads = tuple(name.replace("_", " ") for name in counted)
    return [
        f"Recovery time (RTO) and data at risk (RPO): {words.NO_DRILL}.",
        "",
        *_section("Records", heads, [tuple(map(formats.count, counted.values()))] if counted else []),
    ]


_CLIENTS = (
    "family",
    "version",
    "state",
    "written after",
    "read after",
    "restarts",
    "read again",
    "lost",
    "skipped",
    "sums",
    "why",
)
_LAG = ("state", "reader", "on", "partition", "records behind", "for certain", "oldest", "trend", "why")


def _lag(card: Scorecard) -> list[tuple[str, ...]]:
    return [
        (
            each.verdict.value,
            *_cells(each.reader, each.cluster, f"{each.topic}-{each.partition}"),
            formats.count(each.records),
            formats.count(each.records if each.records_at_least is None else each.records_at_least),
            formats.duration(each.age_seconds),
            *_cells(each.trend, each.why),
        )
        for each in card.lag
    ]


def _timeline(journal: Sequence[Line]) -> list[tuple[str, ...]]:
    return [
        (code(each.at), formats.seconds(each.after), *_cells(each.step, each.what))
        for each in moments(journal[:MOST_LINES])
    ]


def _kept(kept: KeptTable) -> list[str]:
    """A table of a step, with what it is and what is not in it."""
    more = f"; {kept.left_out:,} more are not listed here" if kept.left_out else ""
    where = f"; the file {code(kept.file)}" if kept.file else ""
    heads, rows = kept.heads, [_cells(*row) for row in kept.rows]
    return [f"## {kept.title}", "", f"{kept.caption}{more}{where}.", "", *table(heads, rows), ""]


def _cells(*texts: str) -> tuple[str, ...]:
    return tuple(code(text, cell=True) for text in texts)


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A heading with a table; nothing where there are no rows."""
    found = list(rows)
    return [f"## {title}", "", *table(heads, found), ""] if found else []
