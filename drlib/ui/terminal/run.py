"""A run on a terminal: its progress, and its scorecard, in 80 columns.

Rules: on a terminal a progress bar of the current step, below a line for each step before it, so that a low terminal shows
where the run is; what is typed meanwhile is not shown. In a file or pipe one plain line per step, with the seconds since the
start. Text from outside never becomes markup. None is "unknown". The verdict is a word, coloured where there is colour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO, cast

from rich.console import Console, RenderableType
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.outgoing.terminal import typing_hidden
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Kind, Objectives, Scorecard
from drlib.ui import severity, words
from drlib.ui.terminal.plain_console import headed, pairs, plain_console

WIDTH: Final = 80
LINES: Final = 36  # of a low screen, 40: an error and what to do next may follow
MOST_GROUPS: Final = 6
MOST_CLIENTS: Final = 12
FEW: Final = 2  # checks that did not pass
_LONG: Final = 60  # characters of evidence that are not shown twice
_AS_ABOVE: Final = "as above"
COLOURS: Final = {Verdict.PASS: "green", Verdict.CONDITIONS: "yellow", Verdict.FAIL: "red", Verdict.UNKNOWN: "magenta"}


class Progress:
    """A context manager; `stage` begins the next step, `advance` sets the progress of this one."""

    def __init__(self, console: Console | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console or plain_console(stderr=True)
        self._now = now
        self._began = now()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._while_drawn = ExitStack()

    def __enter__(self) -> Progress:
        self._began = self._now()
        if self._console.is_terminal:
            self._while_drawn.enter_context(typing_hidden(cast(TextIO, self._console.file)))
            self._bar = Bar(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=18),
                TextColumn("{task.fields[detail]}", markup=False, style="dim"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is None:
            return
        self._finish(done=kind is None)
        self._bar.stop()
        self._bar = None
        self._while_drawn.close()

    def stage(self, text: str) -> None:
        """Complete the step before and begin this one."""
        text = formats.one_line(text)
        if self._bar is None:
            line = f"  [{self._now() - self._began:6.1f}s] {text}"
            self._console.print(line, markup=False, soft_wrap=True)
            return
        self._finish(done=True)
        self._task = self._bar.add_task(text, total=None, detail="")
        self._bar.refresh()

    def advance(self, fraction: float, text: str = "") -> None:
        """Set the progress of this step, 0 to 1, with a short text. Shown on a terminal only."""
        if self._bar is None or self._task is None:
            return
        self._bar.update(self._task, total=1.0, completed=min(max(fraction, 0.0), 1.0), detail=formats.one_line(text))

    def note(self, text: str) -> None:
        """A line that stays, above the bars."""
        self._console.print(f"  {formats.one_line(text)}", markup=False, soft_wrap=True)

    def complete(self) -> None:
        """Complete this step; none follows."""
        self._finish(done=True)

    def fail(self) -> None:
        """Mark this step as stopped where it is."""
        self._finish(done=False)

    def _finish(self, *, done: bool) -> None:
        """The step gives up its bar for a line; an interrupted one is marked."""
        if self._bar is None or self._task is None:
            return
        (task,) = self._bar.tasks
        self._bar.remove_task(self._task)
        self._task = None
        took = formats.duration(task.elapsed or 0.0)
        mark, end = ("✓", took) if done else ("✗", f"stopped here after {took}")
        self._console.print(f"{mark} {task.description}  {end}", markup=False, soft_wrap=True)


def print_scorecard(card: Scorecard, report: Path, console: Console | None = None) -> None:
    """Print the verdict, the checks that did not pass, RTO, RPO, records, groups and clients, and the report's path.

    At most `LINES` lines of 80 columns: what is cut is counted, and the report has all of it.
    """
    out = console or plain_console()
    width = min(out.width, WIDTH)
    rows = severity.rows(card)
    open_rows = [row for row in rows if row.state is not severity.State.PASS]
    head, numbers, end = _head(card), _numbers(card), _end(len(rows) - len(open_rows), len(rows))
    path = Text(f"Report: {report}")
    room = LINES - 3 - sum(_height(out, part, width) for part in (head, numbers, end, path))
    parts: list[RenderableType] = []
    shares = 2 if len(open_rows) > FEW else 1  # of what passed, when much did not
    for table in (_groups(card, MOST_GROUPS // shares), _clients(card, MOST_CLIENTS // shares)):
        if table is not None:
            parts += [Text(), table]
            room -= _height(out, table, width) + 1
    shown = list(open_rows)
    while len(shown) > 1 and _height(out, _checks(shown, len(open_rows)), width) > room:
        shown.pop()
    out.print()
    out.print(head, width=width)
    if shown:
        out.print(_checks(shown, len(open_rows)), width=width)
        out.print()
    for part in (numbers, *parts, Text(), end):
        out.print(part, width=width)
    # one line however long, so that it can be clicked and copied
    out.print(path, soft_wrap=True)


def _aims(goals: Objectives) -> str:
    aims = [] if goals.rpo_records is None else [formats.records(goals.rpo_records)]
    aims += [] if goals.rpo_seconds is None else [formats.seconds(goals.rpo_seconds)]
    return f"  (objective {', '.join(aims)})" if aims else ""


def _height(out: Console, part: RenderableType, width: int) -> int:
    return len(out.render_lines(part, out.options.update(width=width), pad=False))


def _end(passed: int, of: int) -> Text:
    return Text(f"{passed} of {formats.count(of)} checks passed; the report has the evidence of each.", style="dim")


def _head(card: Scorecard) -> Text:
    return Text.assemble(
        (f" {words.VERDICTS[card.verdict]} ", f"bold reverse {COLOURS[card.verdict]}"),
        f"  {formats.one_line(card.runbook)} {formats.one_line(card.run_id)}\n",
        (words.meaning(card), "dim"),
    )


def _numbers(card: Scorecard) -> Table:
    table = pairs()
    rto, records = card.rto_seconds, card.records
    if card.kind is Kind.ANALYSIS:
        table.add_row(Text("RTO, RPO"), Text(words.NO_DRILL))
        asked = {name: value for name, value in records.model_dump().items() if value is not None}
        counted = [f"{formats.count(n)} {name.replace('_', ' ')}" for name, n in asked.items()]
        table.add_row(Text("Records"), Text(", ".join(counted) or formats.UNKNOWN))
        return table
    target = card.objectives.rto_seconds
    against = "" if target is None else f"  (objective {formats.seconds(target)})"
    table.add_row(Text("RTO"), Text(f"{formats.one_line(words.served_again(rto))}{against}"))
    split = " → ".join(f"{name} {formats.seconds(getattr(rto, name))}" for name in words.STAGES)
    if any(getattr(rto, name) is not None for name in words.STAGES):
        table.add_row(Text(""), Text(split))
    table.add_row(Text("RPO"), Text(f"{words.at_risk(card.rpo)}{_aims(card.objectives)}"))
    if card.rpo.why:
        table.add_row(Text(""), Text(formats.one_line(card.rpo.why)))
    counts = (
        ("acknowledged", records.produced),
        ("mirrored", records.mirrored),
        ("lost", records.lost),
        ("duplicated", records.duplicated),
        ("out of order", records.out_of_order),
    )
    said = ", ".join(f"{formats.count(n)} {name}" for name, n in counts)
    table.add_row(Text("Records"), Text(said if any(n is not None for _, n in counts) else formats.UNKNOWN))
    return table


def _groups(card: Scorecard, most: int) -> Table | None:
    """Those that skipped or read again first; None where there is none."""
    if not card.groups:
        return None
    table = headed("group")
    table.add_column("read again", justify="right")
    table.add_column("skipped", justify="right")
    table.add_column("positions", overflow="fold")
    worst = sorted(card.groups, key=lambda each: (-_most(each.skipped), -_most(each.re_read)))
    for group in worst[:most]:
        again = words.re_read(group.re_read, group.re_read_at_most)
        cells = (group.group, again, formats.count(group.skipped), words.kinds(group.positions))
        table.add_row(*(Text(formats.one_line(text)) for text in cells))
    return _counted(table, len(worst) - most)


def _clients(card: Scorecard, most: int) -> Table | None:
    """Unmodified clients, those that did not pass first; why is among the checks. Seconds are from the fault to the first
    record, `again` was read again."""
    if not card.clients:
        return None
    table = headed("client", "version")
    for name in ("wrote", "read", "again", "lost", "skipped", "sums", "verdict"):
        table.add_column(name, justify="right", no_wrap=name == "verdict", overflow="fold")
    worst = sorted(card.clients, key=lambda each: severity.ORDER[severity.State(each.verdict.value)])
    for each in worst[:most]:
        cells = (
            f"{each.family} (left behind)" if each.left_behind else each.family,
            each.version,
            words.after(each.wrote_after_s),
            words.after(each.read_after_s),
            *map(words.counted, (each.re_read, each.lost, each.skipped)),
            words.sums(each),
            each.verdict.value,
        )
        table.add_row(*(Text(formats.one_line(text)) for text in cells))
    return _counted(table, len(worst) - most)


def _checks(shown: Sequence[severity.Row], of: int) -> Table:
    """Checks that did not pass, each with its evidence, cut where that is long."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    said: set[str] = set()
    for row in shown:
        colour = "dim" if row.state is severity.State.NOT_MEASURED else f"bold {COLOURS[Verdict(row.state.value)]}"
        evidence = _AS_ABOVE if len(row.evidence) > _LONG and row.evidence in said else formats.one_line(row.short)
        said.add(row.evidence)
        name = formats.one_line(row.name)
        table.add_row(Text(row.state.value, style=colour), Text.assemble((name, "bold"), "\n", evidence))
    return _counted(table, of - len(shown))


def _counted(table: Table, more: int) -> Table:
    """With a last row for those that are not shown."""
    if more > 0:
        last = Text(f"and {more:,} more", style="dim")
        table.add_row(*(["", last] if table.columns[0].header == "" else [last]))
    return table


def _most(number: int | None) -> float:
    """Unknown may be any number."""
    return float("inf") if number is None else number
