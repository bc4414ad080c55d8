"""What a step shows: text in columns, HTML with every value escaped, and a figure."""

import json
import re

import plotly.graph_objects as go
import pytest
import sample_scorecard as sample
from hostile_text import HOSTILE, elements

from drlib.runs.journal import Scalar
from drlib.runs.table import PLOTLY, Table
from drlib.ui.figures.figures import rto_figure

ROWS: list[dict[str, Scalar]] = [
    {"group": "arrivals", "records": 1234567, "exact": True, "seconds": 1.5},
    {"group": "a", "records": None, "exact": False, "seconds": 0.25},
]


def test_table_text_columns_fit_their_widest_value() -> None:
    assert repr(Table("Positions", ROWS, "two groups")).splitlines() == [
        "Positions",
        "group       records  exact  seconds",
        "────────  ─────────  ─────  ───────",
        "arrivals  1,234,567  yes        1.5",
        "a           unknown  no        0.25",
        "two groups",
    ]


def test_table_wider_than_the_terminal_breaks_its_widest_column_between_words() -> None:
    table = Table("Moves", [{"name": "act", "what": "show the end of the log of a broker", "state": "right"}])
    assert table.text(40).splitlines() == [
        "Moves",
        "name  what                         state",
        "────  ───────────────────────────  ─────",
        "act   show the end of the log of   right",
        "      a broker",
    ]
    assert table.text(60) == table.text() == repr(table)


def test_table_lines_around_it_break_between_words_and_not_in_a_path() -> None:
    table = Table(
        "Recovered", [], note="It measures what was lost:\ndrlib status runs/20261128T084023Z/lab/mirror.properties"
    )
    assert table.text(20).splitlines() == [
        "Recovered",
        "It measures what was",
        "  lost:",
        "drlib status",
        "  runs/20261128T084023Z/lab/mirror.properties",
    ]


def test_table_without_rows_is_its_title() -> None:
    assert repr(Table("t", [{"a": 1}])) == "t\na\n─\n1"
    assert repr(Table("Nothing", [])).split() == ["Nothing"]
    assert Table("Nothing", [])._repr_mimebundle_()["text/html"] == "<p><strong>Nothing</strong></p>"


def test_table_missing_value_is_unknown() -> None:
    assert repr(Table("t", [{"a": 1, "b": 2}, {"a": 3}])).splitlines()[-1].split() == ["3", "unknown"]


def test_table_html_is_escaped() -> None:
    evil = "<script>alert('x')</script>&\""
    html = str(Table(evil, [{evil: evil}], evil)._repr_mimebundle_()["text/html"])
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;") == 4


def test_table_bundle_has_text_and_html() -> None:
    table = Table("Positions", ROWS)
    assert table._repr_mimebundle_()["text/plain"] == repr(table)
    assert str(table._repr_mimebundle_()["text/html"]).count("<tr>") == 3


def test_table_bundle_has_text_html_and_figure() -> None:
    table = Table(
        "Groups", [{"group": "a", "lag": 12345}, {"group": "bb", "lag": None}], figure=rto_figure(sample.scorecard())
    )
    bundle = table._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "text/html", PLOTLY]
    assert bundle["text/plain"] == repr(table)
    assert repr(table).splitlines() == [
        "Groups",
        "group      lag",
        "─────  ───────",
        "a       12,345",
        "bb     unknown",
    ]
    figure = bundle[PLOTLY]
    assert isinstance(figure, dict)
    assert len(figure["data"]) == 4
    assert list(table._repr_mimebundle_(exclude=[PLOTLY])) == ["text/plain", "text/html"]


def test_table_control_characters_are_spaces() -> None:
    table = Table("<t>", [{"<c>": "<script>\x1b[31m\n"}], note="<n>")
    html = str(table._repr_mimebundle_()["text/html"])
    assert not {"<t>", "<c>", "<script>", "<n>"} & set(html.replace(">", "> ").split())
    assert "&lt;script&gt;" in html
    assert '<th scope="col" style="text-align:left">' in html
    assert "<caption " in html
    assert "\x1b" not in repr(table)


def test_table_text_is_left_and_numbers_are_right_aligned() -> None:
    html = str(Table("t", [{"group": "a", "lag": 12}, {"group": "b", "lag": None}])._repr_mimebundle_()["text/html"])
    assert html.count('<td style="text-align:left') == 2
    assert html.count('<td style="text-align:right') == 2


def test_table_without_rows_is_title_and_note() -> None:
    assert repr(Table("Nothing", [], note="because")) == "Nothing\nbecause"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_table_of_any_text_has_the_elements_of_a_table(text: str) -> None:
    def page(word: str) -> str:
        return Table(f"t{word}", [{f"c{word}": f"x{word}" * 20, "n": 1}], f"n{word}")._html()

    assert elements(page(text)) == elements(page("plain"))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_figure_has_the_tags_of_our_own_figures_only(text: str) -> None:
    """Plotly makes links of some tags, wherever a name stands: in a legend, a label, a hover text."""
    text = text.encode(errors="replace").decode()
    figure = go.Figure(go.Scatter(x=[text], y=[1], name=text, text=[text], customdata=[[text]]))
    figure.update_traces(hovertemplate=f"<b>{text}</b><br>%{{y}}<extra></extra>")
    figure.add_annotation(text=f'<span style="color:#ff0000">{text}</span>')
    drawn = Table("t", [], figure=figure)._repr_mimebundle_()[PLOTLY]
    tags = set(re.findall("<[^<>]*>?", json.dumps(drawn, ensure_ascii=False).replace("\\", "")))
    assert tags <= {"<b>", "</b>", "<br>", "<extra>", "</extra>", '<span style="color:#ff0000">', "</span>"}
