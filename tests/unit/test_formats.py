"""Numbers, sizes, times and dates as text."""

from __future__ import annotations

import pytest
import sample_scorecard as sample
from hostile_text import HOSTILE, is_one_plain_line

from drlib import formats


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
    assert formats.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unknown"),
        (True, "yes"),
        (False, "no"),
        (12345, "12,345"),
        (1234.5, "1,234.5"),
        (2.0, "2"),
        (0.12345, "0.123"),
        ("1000", "1000"),
    ],
)
def test_cell_has_separated_thousands_and_three_decimals_at_most(value: object, text: str) -> None:
    assert formats.cell(value) == text


def test_times_are_utc_and_zero_is_unknown() -> None:
    assert formats.moment(sample.START + 7) == "2026-11-21 10:00:00.007 UTC"
    assert formats.moment(0) == "unknown"


def test_sizes_rates_and_durations_of_three_digits() -> None:
    assert [formats.short_size(n) for n in (0, 999, 1000, 1.25e9, 999_900)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.25 GB",
        "1 MB",
    ]
    assert formats.rate(5e6) == "5 MB/s"
    assert [formats.short_duration(s) for s in (0.2, 1, 42, 720, 12600, 181440)] == [
        "200 ms",
        "1 s",
        "42 s",
        "12 min",
        "3.5 h",
        "2.1 d",
    ]


def test_span_has_no_decimals_in_a_unit_it_fills_twice() -> None:
    assert [formats.span(s) for s in (3.2, 42, 119, 120, 7200, 172_800)] == [
        "3.2 s",
        "42 s",
        "119 s",
        "2 min",
        "2 h",
        "2 d",
    ]


def test_share_of_unknown_is_unknown() -> None:
    assert formats.share(1.0, None) == formats.share(None, 4.0) == "unknown"
    assert formats.share(1.0, 4.0) == "25 %"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "unknown"), (0.42, "0.4 s"), (9.96, "10 s"), (99, "99 s"), (125, "2 min 05 s"), (12_000, "3 h 20 min")],
)
def test_duration_texts(seconds: float | None, expected: str) -> None:
    assert formats.duration(seconds) == expected
    assert formats.duration(6.2 * 86_400) == "6 d 4 h"


def test_size_texts() -> None:
    assert [formats.size(n) for n in (None, 512, 12_345, 999_960, 10**13)] == [
        "unknown",
        "512 B",
        "12.3 KB",
        "1.0 MB",
        "10.0 TB",
    ]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_one_line_leaves_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = formats.one_line(f"before {text} after")
    assert is_one_plain_line(shown)
    assert shown.startswith("before ")
    assert shown.endswith(" after")


def test_one_line_is_a_space_for_white_space_and_an_escape_for_other_controls() -> None:
    assert formats.one_line("a\tb\r\nc\u2028d") == "a b  c d"
    assert formats.one_line("\x1b[31m \u202e \ud800 \x00") == r"\x1b[31m \u202e \ud800 \x00"
    assert formats.one_line("naïve 名前 [red] \ue000") == "naïve 名前 [red] \ue000"


def test_one_line_different_names_stay_different() -> None:
    assert formats.one_line("or\u200bders") != formats.one_line("orders")


def test_html_text_is_printable_and_no_markup() -> None:
    assert formats.html_text('<b>"a"\u202e\x1b[31m\n b\tc') == "&lt;b&gt;&quot;a&quot;\\u202e\\x1b[31m\n b c"
