"""Words, notebook objects and the terminal: the same numbers, escaped, nothing made up."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_scorecard as sample
from rich.console import Console

from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Rpo
from drlib.ui import words
from drlib.ui.display import PLOTLY, Shown
from drlib.ui.figures.figures import rto_figure
from drlib.ui.terminal.run import Progress, print_scorecard


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unknown"),
        (0.0, "0.000 s"),
        (0.0421, "0.042 s"),
        (3.2149, "3.21 s"),
        (9.999, "10.0 s"),
        (119.94, "119.9 s"),
        (119.96, "2 min 00 s"),
        (125.4, "2 min 05 s"),
    ],
)
def test_seconds_as_text(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


def test_times_are_utc_and_zero_is_unknown() -> None:
    assert words.moment(sample.START + 7) == "2026-11-21 10:00:00.007 UTC"
    assert words.moment(0) == "unknown"


def test_rpo_as_text() -> None:
    assert words.at_risk(Rpo()) == "unknown"
    assert words.at_risk(Rpo(measured=False)) == "not measured by this drill"
    assert words.at_risk(Rpo(records=1, seconds=0.5)) == "1 record, 0.500 s"
    assert words.at_risk(Rpo(records=0)) == "0 records, unknown"
    assert words.share(1.0, None) == words.share(None, 4.0) == "unknown"
    assert words.share(1.0, 4.0) == "25 %"


def test_shown_bundle_has_text_html_and_figure() -> None:
    shown = Shown(
        "Groups", [{"group": "a", "lag": 12345}, {"group": "bb", "lag": None}], rto_figure(sample.scorecard())
    )
    bundle = shown._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "text/html", PLOTLY]
    assert bundle["text/plain"] == repr(shown)
    assert repr(shown).splitlines() == [
        "Groups",
        "group      lag",
        "─────  ───────",
        "a       12,345",
        "bb     unknown",
    ]
    figure = bundle[PLOTLY]
    assert isinstance(figure, dict)
    assert len(figure["data"]) == 4
    assert list(shown._repr_mimebundle_(exclude=[PLOTLY])) == ["text/plain", "text/html"]


def test_shown_html_is_escaped() -> None:
    shown = Shown("<t>", [{"<c>": "<script>\x1b[31m\n"}], note="<n>")
    html = str(shown._repr_mimebundle_()["text/html"])
    assert not {"<t>", "<c>", "<script>", "<n>"} & set(html.replace(">", "> ").split())
    assert "&lt;script&gt;" in html
    assert '<th scope="col" style="text-align:left">' in html
    assert "<caption " in html
    assert "\x1b" not in repr(shown)


def test_shown_text_is_left_and_numbers_are_right_aligned() -> None:
    html = str(Shown("t", [{"group": "a", "lag": 12}, {"group": "b", "lag": None}])._repr_mimebundle_()["text/html"])
    assert html.count('<td style="text-align:left') == 2
    assert html.count('<td style="text-align:right') == 2


def test_shown_without_rows_is_title_and_note() -> None:
    assert repr(Shown("Nothing", [], note="because")) == "Nothing\nbecause"


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


def test_print_scorecard_colours_the_verdict_on_a_terminal() -> None:
    assert "\x1b[1;7;31m FAIL " in printed(sample.scorecard(verdict=Verdict.FAIL), terminal=True)


def test_print_scorecard_says_unknown() -> None:
    text = printed(sample.unmeasured())
    assert "RTO      unknown" in text
    assert "RPO      unknown" in text
    assert "unknown lost" in text
    assert "0 " not in text.replace("T100000Z", "")


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
