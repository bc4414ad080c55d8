"""The report asks no network for anything, escapes everything, and never makes a number up."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
import sample_scorecard as sample

from drlib.lab.environment import MOVES, Banner, Environment
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import ClientScore, GroupScore, KeptTable, Kind, LagPosition, LostExample, Mark
from drlib.runs.table import Table
from drlib.ui.report.notebook_cells import UnreadableNotebook, prose, read_cells, safe_html
from drlib.ui.report.report import MOST_LOST, PRINTED_LAG, write_report
from drlib.ui.report.timeline import MOST_LINES

HOSTILE = '</script><script>alert(1)</script><img src="https://evil.example/x" onerror=alert(1)>"\'&{{ 7*7 }}\u202e\x1b[31m\x07'
FETCHING = {"src", "href", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href", "ping"}


class Page(HTMLParser):
    """What a browser would see: elements with attributes, text outside scripts, styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._in = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._in = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data
        elif self._in == "style":
            self.styles.append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def addresses(self) -> list[str]:
        found = [value for _, attributes in self.elements for name, value in attributes.items() if name in FETCHING]
        for css in [*self.styles, *(attributes.get("style", "") for _, attributes in self.elements)]:
            found += re.findall(r"url\(\s*[\"']?([^\"')]*)", css)
            found += re.findall(r"@import[^;]*", css)
        return found


def notebook(folder: Path, *cells: nbformat.NotebookNode) -> Path:
    path = folder / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return path


def code(source: str, *outputs: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=3)


def shown(**data: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", {name.replace("_", "/"): value for name, value in data.items()})


def written(folder: Path, card=None, lines=None, executed: Path | None = None) -> tuple[str, Page]:  # type: ignore[no-untyped-def]
    path = write_report(
        card or sample.scorecard(), sample.journal(folder) if lines is None else lines, folder, notebook=executed
    )
    html = path.read_text()
    return html, Page(html)


def hostile_notebook(folder: Path) -> Path:
    return notebook(
        folder,
        nbformat.v4.new_markdown_cell(
            f"# Title\n\n![far](https://evil.example/p.png) [docs](https://docs.example/x) {HOSTILE}"
        ),
        code(
            f"print({HOSTILE!r})",
            shown(
                text_html=f"<table onclick=x()><tr><td>kept</td></tr></table>{HOSTILE}<style>@import 'https://e.example'</style>"
            ),
            nbformat.v4.new_output("stream", name="stderr", text=f"\x1b[31mred\x1b[0m {HOSTILE}"),
            shown(image_png="aGVsbG8="),
        ),
    )


def test_report_fetches_nothing_whatever_the_notebook_holds(tmp_path: Path) -> None:
    _, page = written(tmp_path, executed=hostile_notebook(tmp_path))
    assert page.addresses(), "the parser found no address at all, not even the page's own"
    assert [a for a in page.addresses() if not a.startswith(("#", "data:"))] == []
    assert not {tag for tag, _ in page.elements} & {"iframe", "object", "embed", "form", "base", "video", "audio"}
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []


def test_report_policy_forbids_the_network_and_names_its_scripts(tmp_path: Path) -> None:
    import base64

    _, page = written(tmp_path, executed=hostile_notebook(tmp_path))
    policy = next(a["content"] for t, a in page.elements if t == "meta" and "Security" in a.get("http-equiv", ""))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "http" not in policy.replace("http-equiv", "")
    kinds = [attributes.get("type") for tag, attributes in page.elements if tag == "script"]
    assert kinds == ["application/json", None, None]
    for script in page.scripts[1:]:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy


def test_report_includes_plotly_once(tmp_path: Path) -> None:
    html, page = written(tmp_path)
    assert html.count("* plotly.js v") == 1
    charts = {a["id"] for _, a in page.elements if a.get("class") == "chart"}
    assert set(json.loads(page.scripts[0])) == charts
    assert len(charts) == 3


def test_report_escapes_hostile_text(tmp_path: Path) -> None:
    card = sample.scorecard(
        checks=(Check(name=HOSTILE, verdict=Verdict.FAIL, evidence=HOSTILE),),
        groups=(GroupScore(group=HOSTILE, re_read=1, skipped=2, positions={HOSTILE: 3}),),
        clients=(
            ClientScore(
                family=HOSTILE, library=HOSTILE, version=HOSTILE, settings=(HOSTILE,), verdict=Verdict.FAIL, why=HOSTILE
            ),
        ),
        lost_examples=(LostExample(id=HOSTILE, key=HOSTILE, partition=0, offset=1, acked_ms=1),),
        marks=(Mark(name=HOSTILE, at_ms=sample.START, detail=HOSTILE),),
        environment={HOSTILE: HOSTILE},
        run_id=HOSTILE,
    )
    html, page = written(tmp_path, card)
    assert not {"\x1b", "\u202e", "\x07"} & set(html.split('<script type="application/json"')[0])
    assert html.count(r"\u202e") >= 8
    assert "<img" not in html.split('<script type="application/json"')[0]
    assert [t for t, _ in page.elements].count("script") == 3
    assert "{{ 7*7 }}" in page.text
    assert page.text.count("alert(1)") >= 8
    assert "<" not in page.scripts[0]


def test_report_has_clients_only_where_some_ran(tmp_path: Path) -> None:
    html, _ = written(tmp_path)
    assert 'id="clients"' not in html
    row = ClientScore(
        family="java",
        library="Java",
        version="4.3.1",
        verdict=Verdict.PASS,
        read_after_s=4.25,
        lost=0,
        left_behind=True,
    )
    sums = row.model_copy(update={"family": "streams", "left_behind": False, "sums": 7, "sums_differ": 7})
    html, page = written(tmp_path, sample.scorecard(clients=(row, sums)))
    assert "<td>differ</td>" in html
    assert 'href="#clients"' in html
    assert "java (left behind)" in page.text
    assert "4.25 s" in page.text


def test_report_unmeasured_numbers_are_unknown(tmp_path: Path) -> None:
    card = sample.unmeasured()
    counted = card.records.model_copy(update={"produced": 5})
    objectives = card.objectives.model_copy(update={"rto_seconds": 30.0})
    _, page = written(tmp_path, card.model_copy(update={"records": counted, "objectives": objectives}), lines=())
    assert "UNKNOWN" in page.text
    assert "How many records were lost is unknown" in page.text
    assert "unknown to unknown, unknown in all" in page.text
    cells = re.findall(r"(?<![\w.,-])0(?: s| records)?(?![\w.,:-])", page.text)
    assert cells == [], "a number that was not measured is shown as 0"
    assert page.text.count("unknown") > 20


def test_report_of_a_rehearsal_has_no_section_of_what_it_did_not_measure(tmp_path: Path) -> None:
    card = sample.unmeasured()
    rpo = card.rpo.model_copy(update={"measured": False})
    html, page = written(tmp_path, card.model_copy(update={"rpo": rpo, "partitions": ()}), lines=())
    for name in ("rto", "rpo", "lost", "partitions"):
        assert f'id="{name}"' not in html, name
        assert f'href="#{name}"' not in html, name
    assert 'class="figures"' not in html
    for name in ("recovery time (RTO)", "data at risk (RPO)", "records lost, duplicated and out of order"):
        assert name in page.text, "that it was not measured is said with the verdict"


def test_report_zero_is_zero(tmp_path: Path) -> None:
    records = sample.scorecard().records.model_copy(update={"lost": 0})
    _, page = written(tmp_path, sample.scorecard(records=records, lost_examples=()))
    assert "None: every acknowledged record" in page.text


def test_report_lists_are_bounded_and_the_rest_counted(tmp_path: Path) -> None:
    one = sample.scorecard().lost_examples[0]
    lost = tuple(one.model_copy(update={"id": f"lost-{n}"}) for n in range(MOST_LOST + 7))
    records = sample.scorecard().records.model_copy(update={"lost": 1000})
    lines = sample.journal(tmp_path) * 100
    _, page = written(tmp_path, sample.scorecard(lost_examples=lost, records=records), lines)
    assert len(re.findall(r"lost-\d+", page.text)) == MOST_LOST
    assert f"{1000 - MOST_LOST} more are not listed" in page.text
    assert f"{len(lines) - MOST_LINES} more lines" in page.text


def test_report_lists_files_with_hashes(tmp_path: Path) -> None:
    (tmp_path / "scorecard.json").write_bytes(b"{}\n")
    (tmp_path / ".hidden").write_bytes(b"x")
    _, page = written(tmp_path)
    assert hashlib.sha256(b"{}\n").hexdigest() in page.text
    assert ".hidden" not in page.text
    assert hashlib.sha256((tmp_path / "journal.jsonl").read_bytes()).hexdigest() in page.text


def test_report_is_private_and_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    written(tmp_path, lines=())
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_report_headings_are_nested_and_tables_labelled(tmp_path: Path) -> None:
    html, page = written(tmp_path, executed=notebook(tmp_path, nbformat.v4.new_markdown_cell("# A\n\n## B\n\ntext")))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")
    assert {"header", "nav", "main", "footer"} <= set(tags)
    assert '<html lang="en">' in html


def test_report_shows_prose_code_outputs_and_charts_of_the_notebook(tmp_path: Path) -> None:
    from drlib.ui.figures.figures import rto_figure

    bundle = Table("A table", [{"n": 1}], figure=rto_figure(sample.scorecard()))._repr_mimebundle_()
    executed = notebook(
        tmp_path,
        nbformat.v4.new_markdown_cell("## Fail over\n\nIt *moves*. See [docs](https://docs.example/x)."),
        code("drill.run()", nbformat.v4.new_output("display_data", bundle), shown(text_plain="plain")),
    )
    _, page = written(tmp_path, executed=executed)
    assert "Fail over" in page.text
    assert "docs (https://docs.example/x)" in page.text
    assert "drill.run()" in page.text
    assert "A table" in page.text
    assert "plain" in page.text
    assert len(json.loads(page.scripts[0])) == 4
    assert ("details", {}) in page.elements


def test_read_cells_of_a_file_that_is_not_a_notebook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "executed.ipynb").write_text("not json")
    with pytest.raises(UnreadableNotebook, match=r"executed\.ipynb cannot be shown"):
        write_report(sample.scorecard(), (), tmp_path, notebook=tmp_path / "executed.ipynb")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "content",
    [
        {"nbformat": 2, "worksheets": [{"cells": [{"cell_type": "x"}]}]},
        {"nbformat": 3, "worksheets": []},
        {"nbformat": "4", "cells": []},
        {"nbformat": 4},
        {"nbformat": 4, "cells": 5},
        {"nbformat": 4, "cells": [{"cell_type": "code"}]},
        {"nbformat": 4, "cells": [{"cell_type": "code", "source": "1", "outputs": [{"output_type": "stream"}]}]},
        [],
    ],
)
def test_read_cells_of_another_notebook_is_refused(tmp_path: Path, content: object) -> None:
    (tmp_path / "executed.ipynb").write_text(json.dumps(content))
    with pytest.raises(UnreadableNotebook, match=r"executed\.ipynb cannot be shown"):
        read_cells(tmp_path / "executed.ipynb")


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)",
        "<svg><script>alert(1)</script></svg>",
        '<a href="javascript:alert(1)">x</a>',
        '<img src="//evil.example/x">',
        '<div style="background:url(https://evil.example)">x</div>',
        '<b onmouseover="alert(1)">x</b>',
        "<scr<script></script>ipt>alert(1)</script>",
    ],
)
def test_safe_html_runs_and_fetches_nothing(html: str) -> None:
    page = Page(safe_html(html))
    assert not {tag for tag, _ in page.elements} & {"script", "svg", "style"}
    assert page.addresses() == []
    assert all(name not in {"style", "onmouseover"} for _, attributes in page.elements for name in attributes)


@pytest.mark.parametrize("text", ["a\u202eb", "a&#x202e;b", "a\x1b[31mb"])
def test_safe_html_shows_what_would_reverse_or_colour_text(text: str) -> None:
    assert not {"\u202e", "\x1b"} & set(safe_html(f"<p>{text}</p>"))


def test_prose_keeps_tables() -> None:
    tags = [tag for tag, _ in Page(prose("|a|b|\n|-|-|\n|1|2|")).elements]
    assert tags.count("td") == 2


def test_report_banner_says_production_and_what_changes_before_the_verdict(tmp_path: Path) -> None:
    banner = Banner(Environment.PRODUCTION, "paris->lyon", MOVES)
    card = sample.scorecard(environment={**banner.facts(), "flow": "paris->lyon"})
    page, read = written(tmp_path, card)
    assert "PRODUCTION flow paris->lyon, clusters paris and lyon: real applications move." in read.text
    assert page.index('class="where production"') < page.index('class="verdict"')
    assert "<title>PRODUCTION " in page
    old = written(tmp_path, sample.scorecard(environment={"flow": "paris->lyon"}))[0]
    assert 'class="where' not in old


def row_names(page: Page) -> list[str]:
    """Names of checks, in the order of the page."""
    found = re.findall(r"(?:^| )(fail|unknown|conditions|not measured|pass) +((?:check|recovery) \w+)", page.text)
    return [name for _, name in found]


def test_report_checks_are_there_once_by_severity_and_what_did_not_pass_before_any_figure(tmp_path: Path) -> None:
    checks = tuple(
        Check(name=f"check {name}", verdict=verdict, evidence="shown")
        for name, verdict in (
            ("one", Verdict.PASS),
            ("two", Verdict.CONDITIONS),
            ("three", Verdict.UNKNOWN),
            ("four", Verdict.FAIL),
            ("four", Verdict.FAIL),
        )
    )
    html, page = written(tmp_path, sample.scorecard(checks=checks, verdict=Verdict.FAIL))
    assert row_names(page) == ["check four", "check three", "check two", "check one"]
    assert page.text.count("check four") == 1
    assert html.index("check two") < html.index('<dl class="figures">') < html.index("check one")


def test_report_has_dark_colours_a_switch_and_light_paper(tmp_path: Path) -> None:
    html, _ = written(tmp_path)
    assert html.count("prefers-color-scheme: dark") == 2  # the style sheet, and the script for figures
    assert '<button id="theme" type="button" hidden>' in html
    assert 'get("theme")' in html
    assert "@media print { :root[data-theme" not in html


def lag_card(count: int):  # type: ignore[no-untyped-def]
    lag = tuple(
        LagPosition(
            reader=f"group-{n}",
            cluster="LEFT",
            topic="orders",
            partition=n,
            records=n,
            age_seconds=0.5,
            trend="steady",
            verdict=Verdict.PASS,
            why="nothing is behind",
        )
        for n in range(count)
    )
    return sample.scorecard(kind=Kind.ANALYSIS, lag=lag)


def test_report_lag_table_has_every_group_and_partition(tmp_path: Path) -> None:
    html, page = written(tmp_path, lag_card(300))
    assert {f"group-{n}" for n in range(300)} <= set(page.text.split())
    assert f"on paper {PRINTED_LAG} of these 300, the others are in report.html" in page.text
    assert html.count('<tr class="screen">') == 300 - PRINTED_LAG
    assert "For certain" not in page.text
    bounded = lag_card(1).lag[0].model_copy(update={"records_at_least": 0, "records": 7})
    assert "For certain" in written(tmp_path, sample.scorecard(kind=Kind.ANALYSIS, lag=(bounded,)))[1].text
    assert 'id="lag"' not in written(tmp_path, lag_card(0))[0]


def test_report_long_evidence_is_cut_until_it_is_opened_and_never_lost(tmp_path: Path) -> None:
    long = "a partition that is behind, " * 20
    html, _ = written(tmp_path, sample.scorecard(checks=(Check("long", Verdict.FAIL, long),)))
    assert html.count(long.strip()) == 1
    assert '<details class="long"><summary><span class="short">a partition' in html


def test_report_figures_keep_the_squares_that_stand_for_a_legend(tmp_path: Path) -> None:
    _, page = written(tmp_path)
    figures = json.loads(page.scripts[0])
    texts = [note["text"] for figure in figures.values() for note in figure["layout"].get("annotations", ())]
    assert any(text.startswith('<span style="color:#0072B2">■</span> mirrored') for text in texts)
    assert not [text for text in texts if "&lt;span" in text]


def test_report_has_a_section_for_each_table_of_a_step_and_escapes_it(tmp_path: Path) -> None:
    whole = KeptTable(
        title="Applications", caption="Who uses them", heads=("name", "moves"), rows=((HOSTILE, "by hand"),)
    )
    cut = KeptTable(
        title="Transactions in part", caption="7 in part", heads=("id",), rows=(("1",),), left_out=6, file="f"
    )
    html = write_report(sample.scorecard(tables=(whole, cut)), (), tmp_path, notebook=None).read_text()
    page = Page(html)
    for words in ("Applications", "Who uses them", "by hand", "7 in part; 6 more are not listed here; the file f"):
        assert words in page.text
    anchors = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert anchors.index("#table-1") < anchors.index("#table-2") < anchors.index("#timeline")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert {"table-1", "table-2"} <= set(ids)
    assert "alert(1)>" not in html.replace("&lt;", "").split('id="table-1"')[1].split("</table>")[0].replace("&gt;", "")
    assert not [address for address in page.addresses() if "evil" in address]
