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
from drlib.runs.scorecard import ClientScore, GroupScore
from drlib.ui.terminal.run import LINES, Progress, print_scorecard


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
    for said in (
        "PASS WITH CONDITIONS",
        "118 records, 0.031 s",
        "detect 1.23 s",
        "5 exact, 1 behind",
        "6 of 7 checks passed",
    ):
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
    cells = next(line.split() for line in text.splitlines() if line.startswith("librdkafka"))
    assert cells == ["librdkafka", "2.16.1", "3.20", "s", "12.3", "s", "-", "1,234", "0", "-", "pass"]
    cells = next(line.split() for line in text.splitlines() if line.startswith("streams"))
    assert cells[-2:] == ["differ", "conditions"]
    assert "version" not in printed(sample.scorecard())


def test_print_scorecard_colours_the_verdict_on_a_terminal() -> None:
    assert "\x1b[1;7;31m FAIL " in printed(sample.scorecard(verdict=Verdict.FAIL), terminal=True)


def test_print_scorecard_says_unknown() -> None:
    text = printed(sample.unmeasured())
    assert "RTO      not measured by this drill" in text
    assert "RPO      unknown" in text
    assert [line.rstrip() for line in text.splitlines() if line.startswith("Records")] == ["Records  unknown"]
    assert "decide" not in text, "no stage was reached"
    assert "0 of 4 checks passed" in text
    assert "0 " not in text.replace("T100000Z", "").replace("0 of 4", "")


def test_print_scorecard_shows_long_evidence_once() -> None:
    same = "73,603 processed; last committed on LEFT, by partition: 0 at 9,620, 1 at 8,724"
    names = ("reads nothing again", "skips nothing", "sees every key in order")
    checks = [Check(name=name, verdict=Verdict.FAIL, evidence=same) for name in names]
    text = " ".join(printed(sample.scorecard(checks=(*checks, Check("x", Verdict.PASS, "yes"))), width=80).split())
    assert text.count("73,603 processed") == 1
    assert text.count("as above") == 2


def test_print_scorecard_begins_with_what_did_not_pass_and_leaves_what_passed_to_the_report() -> None:
    checks = (
        Check("it is well", Verdict.PASS, "7 of 7"),
        Check("at most 9 records are lost", Verdict.CONDITIONS, "4 were lost"),
        Check("every key is in order", Verdict.FAIL, "3 were not"),
    )
    text = printed(sample.scorecard(verdict=Verdict.FAIL, checks=checks))
    said = [text.index(part) for part in (" FAIL ", "every key is in", "3 were not", "at most 9", "RTO  ", "Records")]
    assert said == sorted(said)
    assert "it is well" not in text
    assert "1 of 3 checks passed; the report has the evidence of each." in text


@pytest.mark.parametrize("many", [0, 1, 60])
def test_print_scorecard_fits_a_low_screen_whatever_is_in_it(many: int) -> None:
    long = "what was seen on LEFT, and not on RIGHT, of each partition of it: " + ", ".join(map(str, range(90)))
    clients = [ClientScore(family=f"family{n}", library="", version="1", verdict=Verdict.PASS) for n in range(many)]
    checks = [Check(f"check {n} of them, with a name that is long enough for two lines", Verdict.FAIL, f"{n} {long}")
              for n in range(many)]  # fmt: skip
    groups = tuple(sample.scorecard().groups) * many
    card = sample.scorecard(verdict=Verdict.FAIL, checks=tuple(checks), groups=groups, clients=tuple(clients))
    text = printed(card)
    assert len(text.splitlines()) <= LINES
    if many:
        assert "check 0 of them" in text
    assert text.count("more") == (3 if many == 60 else 0)


def test_print_scorecard_shows_the_groups_that_skipped_before_others() -> None:
    fine = [GroupScore(group=f"fine{n}", re_read=0, skipped=0) for n in range(9)]
    bad = [GroupScore(group="skipped", re_read=0, skipped=7), GroupScore(group="not counted")]
    text = printed(sample.scorecard(groups=(*fine, *bad)))
    shown = [line.split()[0] for line in text.splitlines() if line.startswith(("fine", "skipped", "not"))]
    assert shown[:3] == ["not", "skipped", "fine0"]
    assert "and 5 more" in text


def test_print_scorecard_escapes_evidence() -> None:
    check = Check(name="[red]a[/red]", verdict=Verdict.FAIL, evidence="[/nope] \x1b]0;x\x07")
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
