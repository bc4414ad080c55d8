"""Times of a schedule: what is read, what is refused, and the same times in systemd's words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from drlib.runbook.file import calendar

SAME = [
    ("0 3 * * *", "*-*-* 03:00:00 UTC"),
    ("30 4 1 * *", "*-*-01 04:30:00 UTC"),
    ("0 3 1 */3 *", "*-01/3-01 03:00:00 UTC"),
    ("*/15 * * * *", "*-*-* *:00/15:00 UTC"),
    ("0 8-18/2 * * 1-5", "Mon,Tue,Wed,Thu,Fri *-*-* 08..18/2:00:00 UTC"),
    ("5,35 0 * * 0", "Sun *-*-* 00:05,35:00 UTC"),
    ("0 0 * * 7", "Sun *-*-* 00:00:00 UTC"),
    ("0 0 * * */2", "Sun,Tue,Thu,Sat *-*-* 00:00:00 UTC"),
]


@pytest.mark.parametrize(("cron", "systemd"), SAME)
def test_cron_expression_becomes_the_same_systemd_times(cron: str, systemd: str) -> None:
    assert calendar.on_calendar(calendar.parse_cron(cron)) == systemd
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:  # where there is a systemd, it has the last word
        assert subprocess.run([analyze, "calendar", systemd], capture_output=True, check=False).returncode == 0


def test_cron_day_of_month_or_week_is_refused_for_systemd() -> None:
    with pytest.raises(ValueError, match="cron takes either, systemd would take both"):
        calendar.on_calendar(calendar.parse_cron("0 3 1 * 1"))


def test_cron_least_and_greatest_number_of_each_field_are_read() -> None:
    for text in ("0 0 1 1 0", "59 23 31 12 7"):
        assert str(calendar.parse_cron(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 3 * *", "has 4 fields"),
        ("60 3 * * *", "'60' is no minute"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 3 0 * *", "'0' is no day of month"),
        ("0 3 32 * *", "'32' is no day of month"),
        ("0 3 * 0 *", "'0' is no month"),
        ("0 3 * 13 *", "'13' is no month"),
        ("0 3 * JAN *", "'JAN' is no month"),
        ("0 3 * * 8", "'8' is no day of week"),
        ("0 5-3 * * *", "'5-3' is no hour"),
        ("*/0 3 * * *", "step of 0"),
        ("@daily", "has 1 fields"),
        ("0 3 * * 1;rm", "is no day of week"),
    ],
)
def test_cron_wrong_field_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        calendar.parse_cron(text)


def test_every_hours_of_intervals_and_cron_expressions() -> None:
    assert [calendar.every_hours(text) for text in ("12h", "30d", "4w")] == [12, 720, 672]
    for wrong in ("0d", "30", "d", "1.5h", "-1d", "30 d", "1m"):
        with pytest.raises(ValueError, match="no time between runs"):
            calendar.every_hours(wrong)
    assert str(calendar.usual_cron(168)) == "0 3 * * 1"
    assert calendar.usual_cron(100) is None


@pytest.mark.parametrize(
    ("every", "cron", "hours"),
    [
        ("30d", "0 3 1 * *", 31 * 24),  # a month, as `drlib init` writes it
        ("30d", "", 31 * 24),
        ("4w", "", 31 * 24),
        ("90d", "", 92 * 24),
        ("1d", "30 2 * * *", 24),
        ("7d", "0 3 * * 0", 7 * 24),
        ("7d", "0 3 * * 7", 7 * 24),
        ("14d", "0 3 1,15 * *", 14 * 24),  # up to 17 days are another time between runs
        ("1h", "10 * * * *", 1),
        ("12h", "", 12),
        ("1d", "0 3 * * 1-5", 24),
        ("7d", "0 3 1 * *", 7 * 24),
        ("1d", "0 3 */2 * 5", 24),
        ("40d", "0 3 30 2 *", 960),  # never
    ],
)
def test_run_is_due_after_the_longest_pause_of_times_that_mean_the_same(every: str, cron: str, hours: int) -> None:
    assert calendar.due_hours(every, cron) == hours
