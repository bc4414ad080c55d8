"""The scorecard and the progress in a terminal: nothing made up, nothing from outside obeyed."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_scorecard as sample
from deadline import Deadline
from rich.console import Console

from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import ClientScore
from drlib.ui.terminal.run import Progress, print_scorecard


def printed(card, *, terminal: bool = False, width: int = 80) -> str:  # type: ignore[no-untyped-def]
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal, highlight=False, color_system="standard" if terminal else None
    )
    print_scorecard(card, Path("runs/20261121/report.html"), console)
    return out.getvalue()


def test_print_scorecard_fits_80_columns() -> None:
    text = printed(sample.scorecard(), width=200)
    assert max(map(len, text.splitlines())) <= 80
    for said in ("PASS WITH CONDITIONS", "118 records, 0.031 s", "detect 1.23 s", "5 exact, 1 behind", "margin 382"):
        assert said in text
    assert text.rstrip().endswith("runs/20261121/report.html")


def test_print_scorecard_lists_unmodified_clients_in_80_columns() -> None:
    some = {"library": "", "verdict": Verdict.PASS, "read_after_s": 12.345, "wrote_after_s": 3.2, "skipped": 0}
    rows = tuple(
        ClientScore.model_validate({**some, "family": name, "version": "2.16.1", "lost": lost})
        for name, lost in (("librdkafka", 1234), ("console", None))
    )
    differs = {"family": "streams", "version": "4.3.1", "verdict": Verdict.CONDITIONS, "sums": 7, "sums_differ": 7}
    left = {"family": "java", "version": "4.3.1", "left_behind": True}
    rows += tuple(ClientScore.model_validate({**some, **row}) for row in (differs, left))
    text = printed(sample.scorecard(clients=rows), width=200)
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("Clients\n")[2]
    cells = next(line.split() for line in table.splitlines() if line.startswith("librdkafka"))
    assert cells == ["librdkafka", "2.16.1", "3.20", "s", "12.3", "s", "-", "1,234", "0", "-", "pass"]
    cells = next(line.split() for line in table.splitlines() if line.startswith("streams"))
    assert cells[-2:] == ["differ", "conditions"]
    assert "Clients" not in printed(sample.scorecard())


def test_print_scorecard_colours_the_verdict_on_a_terminal() -> None:
    assert "\x1b[1;7;31m FAIL " in printed(sample.scorecard(verdict=Verdict.FAIL), terminal=True)


def test_print_scorecard_says_unknown() -> None:
    text = printed(sample.unmeasured())
    assert "RTO      not measured by this drill" in text
    assert "RPO      unknown" in text
    assert [line.rstrip() for line in text.splitlines() if line.startswith("Records")] == ["Records  unknown"]
    assert "decide" not in text, "no stage was reached"
    assert "0 " not in text.replace("T100000Z", "")


def test_print_scorecard_shows_long_evidence_once() -> None:
    same = "73,603 processed; last committed on LEFT, by partition: 0 at 9,620, 1 at 8,724"
    names = ("reads nothing again", "skips nothing", "sees every key in order")
    checks = [Check(name=name, verdict=Verdict.PASS, evidence=same) for name in names]
    text = " ".join(printed(sample.scorecard(checks=(*checks, Check("x", Verdict.PASS, "yes"))), width=80).split())
    assert text.count("73,603 processed") == 1
    assert text.count("as above") == 2


def test_print_scorecard_escapes_evidence() -> None:
    check = Check(name="[red]a[/red]", verdict=Verdict.PASS, evidence="[/nope] \x1b]0;x\x07")
    text = printed(sample.scorecard(checks=(check,)))
    assert "[red]a[/red]" in text
    assert "[/nope]" in text
    assert "\x1b" not in text


def clock(*at: float) -> Callable[[], float]:
    times = iter(at)
    return lambda: next(times)


def test_progress_without_terminal_is_one_line_per_step() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=40, color_system=None), now=clock(0, 0, 12.3, 101.0)) as progress:
        progress.stage("starting [bold]LEFT[/bold] and RIGHT, two real clusters")
        progress.advance(0.5, "half")
        progress.stage("killing LEFT")
    assert out.getvalue() == (
        "  [  12.3s] starting [bold]LEFT[/bold] and RIGHT, two real clusters\n  [ 101.0s] killing LEFT\n"
    )


def test_progress_that_was_stopped_marks_that_step_and_completes_what_cleans_up() -> None:
    out = io.StringIO()

    def broken_off() -> None:
        with Progress(Console(file=out, width=100, force_terminal=True)) as progress:
            progress.stage("first")
            progress.fail()
            progress.stage("cleaning up")
            progress.complete()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert "✗ first  stopped here after" in out.getvalue()
    assert "✓ cleaning up  " in out.getvalue()


def test_progress_on_a_low_terminal_shows_the_current_step() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=80, height=4, force_terminal=True, color_system=None)) as progress:
        for number in range(10):
            progress.stage(f"step {number}")
        before = len(out.getvalue())
        progress.advance(0.5, "half of it")
        deadline = Deadline(10)  # it is drawn ten times a second
        while "half of it" not in out.getvalue()[before:] and not deadline.passed:
            time.sleep(0.02)
        drawn = out.getvalue()[before:]
        assert "step 9" in drawn
        assert "…" not in drawn
    assert [out.getvalue().count(f"✓ step {number}  ") for number in range(10)] == [1] * 10


def test_progress_on_a_terminal_says_where_it_stopped() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True)

    def broken_off() -> None:
        with Progress(console) as progress:
            progress.stage("first")
            progress.advance(0.4, "40 of 100")
            progress.stage("second")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    last = out.getvalue().rsplit("first", 1)[1]
    assert "second" in last
    assert "stopped here" in last
