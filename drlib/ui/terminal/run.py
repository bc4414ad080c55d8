"""A run on a terminal: its progress, and its scorecard, in 80 columns.

Rules: on a terminal a progress bar of the current step, below a line for each step before it, so that a low terminal shows
where the run is; what is typed meanwhile is not shown. In a file or pipe one plain line per step, with the seconds since the
start. Text from outside never becomes markup. None is "unknown". The verdict is a word, coloured where there is colour.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO, cast

from rich import box
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.outgoing.terminal import typing_hidden
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Kind, Scorecard
from drlib.ui import severity, words
from drlib.ui.terminal.plain_console import plain_console

WIDTH: Final = 80
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
    """Print the verdict, the RTO by stage, RPO, records, groups, checks and the report's path."""
    out = console or plain_console()
    width = min(out.width, WIDTH)
    out.print()
    out.print(_head(card), width=width)
    out.print(_numbers(card), width=width)
    for title, table in (("Groups", _groups(card)), ("Clients", _clients(card)), ("Checks", _checks(card))):
        if not table.row_count and (card.kind is Kind.ANALYSIS or title == "Clients"):
            continue
        out.print(Text(f"\n{title}", style="bold"))
        out.print(table if table.row_count else Text("  none"), width=width)
    out.print()
    # one line however long, so that it can be clicked and copied
    out.print(Text(f"Report: {report}"), soft_wrap=True)


def _head(card: Scorecard) -> Text:
    return Text.assemble(
        (f" {words.VERDICTS[card.verdict]} ", f"bold reverse {COLOURS[card.verdict]}"),
        f"  {formats.one_line(card.runbook)} {formats.one_line(card.run_id)}\n",
        (words.meaning(card), "dim"),
    )


def _numbers(card: Scorecard) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
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
    table.add_row(Text("RPO"), Text(words.at_risk(card.rpo)))
    if card.rpo.why:
        table.add_row(Text(""), Text(formats.one_line(card.rpo.why)))
    counts = (
        ("produced", records.produced),
        ("mirrored", records.mirrored),
        ("lost", records.lost),
        ("duplicated", records.duplicated),
        ("out of order", records.out_of_order),
    )
    said = ", ".join(f"{formats.count(n)} {name}" for name, n in counts)
    table.add_row(Text("Records"), Text(said if any(n is not None for _, n in counts) else formats.UNKNOWN))
    return table


def _groups(card: Scorecard) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("group", overflow="fold")
    table.add_column("read again", justify="right")
    table.add_column("skipped", justify="right")
    table.add_column("positions", overflow="fold")
    for group in card.groups:
        again = words.re_read(group.re_read, group.re_read_at_most)
        cells = (group.group, again, formats.count(group.skipped), words.kinds(group.positions))
        table.add_row(*(Text(formats.one_line(text)) for text in cells))
    return table


def _clients(card: Scorecard) -> Table:
    """Unmodified clients; seconds are from the fault to the first record, `again` was read again.

    Why one did not pass is among the checks."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("family", overflow="fold")
    table.add_column("version", overflow="fold")
    for name in ("wrote", "read", "again", "lost", "skipped", "sums", "verdict"):
        table.add_column(name, justify="right", no_wrap=name == "verdict", overflow="fold")
    for each in card.clients:
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
    return table


def _checks(card: Scorecard) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("check", overflow="fold", ratio=2)
    table.add_column("evidence", overflow="fold", ratio=3)
    shown: set[str] = set()
    for row in severity.rows(card):
        repeated = len(row.evidence) > _LONG and row.evidence in shown
        shown.add(row.evidence)
        colour = "dim" if row.state is severity.State.NOT_MEASURED else f"bold {COLOURS[Verdict(row.state.value)]}"
        state = Text(row.state.value, style=colour)
        table.add_row(
            state, Text(formats.one_line(row.name)), Text(_AS_ABOVE if repeated else formats.one_line(row.evidence))
        )
    return table
