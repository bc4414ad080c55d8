"""Numbers, sizes, times and dates as text."""

from __future__ import annotations

import pytest
import sample_scorecard as sample

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
    assert [formats.short_duration(s) for s in (0.2, 42, 720, 12600, 181440)] == [
        "200 ms",
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
