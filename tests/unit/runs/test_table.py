"""What a step shows: text in columns, HTML with every value escaped."""

from drlib.runs.table import Table

ROWS = [
    {"group": "arrivals", "records": 1234567, "exact": True, "seconds": 1.5},
    {"group": "a", "records": None, "exact": False, "seconds": 0.25},
]


def test_table_text_columns_fit_their_widest_value() -> None:
    assert repr(Table("Positions", ROWS, "two groups")).splitlines() == [
        "Positions",
        "group     records    exact  seconds",
        "arrivals  1,234,567  yes    1.5    ",
        "a         unknown    no     0.25   ",
        "two groups",
    ]


def test_table_without_rows_is_its_title() -> None:
    assert repr(Table("t", [{"a": 1}])) == "t\na\n1"
    assert repr(Table("Nothing", [])).split() == ["Nothing"]
    assert "<tbody></tbody>" in Table("Nothing", [])._repr_mimebundle_()["text/html"]


def test_table_missing_value_is_unknown() -> None:
    assert repr(Table("t", [{"a": 1, "b": 2}, {"a": 3}])).splitlines()[-1].split() == ["3", "unknown"]


def test_table_html_is_escaped() -> None:
    evil = "<script>alert('x')</script>&\""
    html = Table(evil, [{evil: evil}], evil)._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;") == 4


def test_table_bundle_has_text_and_html() -> None:
    table = Table("Positions", ROWS)
    assert table._repr_mimebundle_()["text/plain"] == repr(table)
    assert table._repr_mimebundle_()["text/html"].count("<tr>") == 3
