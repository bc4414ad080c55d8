"""When a runbook is to be run: how often, or at which times; and the same said in the words of cron and systemd.

Rules: `every` is a whole number of hours, days or weeks (`12h`, `30d`, `4w`). Where times are given that mean the same by the
calendar, as the first of each month for 30 days, a run is due after the longest pause between two of them. Cron is the five
fields of POSIX crontab(5) with lists, ranges and steps; names of months and days, and `@daily` and the like, are refused. A
cron line whose day of month and day of week are both restricted means "either" and systemd's OnCalendar (systemd.time(7))
means "both": that is refused, never guessed.
"""

import itertools
import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

_EVERY: Final = re.compile(r"([1-9]\d{0,4})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_ITEM: Final = re.compile(r"(\*|\d{1,2}(?:-\d{1,2})?)(?:/(\d{1,2}))?")
_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_DAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SAME: Final = 9 / 8  # four weeks are a month of 31 days
_CYCLE: Final = (date(2024, 1, 1), 5 * 366)  # with a leap year, and every length of months and quarters
# What people mean who say how often and leave the hour to us: at three in the morning, when least is going on.
_USUAL: Final = {
    24: "0 3 * * *",
    168: "0 3 * * 1",
    720: "0 3 1 * *",
    672: "0 3 1 * *",
    2160: "0 3 1 */3 *",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields as they were written."""

    minute: str
    hour: str
    day: str
    month: str
    weekday: str

    def __str__(self) -> str:
        return f"{self.minute} {self.hour} {self.day} {self.month} {self.weekday}"


def every_hours(text: str) -> int:
    """`30d` in hours. Raises ValueError for what it cannot mean."""
    match = _EVERY.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no time between runs; write 12h, 30d or 4w")
    return int(match[1]) * _HOURS[match[2]]


def parse_cron(text: str) -> Cron:
    """Raises ValueError naming the field that is wrong."""
    parts = text.split()
    if len(parts) != 5:
        raise ValueError(f"'{text}' has {len(parts)} fields; cron has five: minute hour day month weekday")
    for part, (name, least, most) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            match = _ITEM.fullmatch(item)
            numbers = [int(n) for n in re.findall(r"\d+", match[1])] if match else []
            if match is None or any(not least <= n <= most for n in numbers) or numbers != sorted(numbers):
                raise ValueError(f"'{item}' is no {name} of cron ({least} to {most})")
            if match[2] is not None and int(match[2]) == 0:
                raise ValueError(f"'{item}' has a step of 0")
    return Cron(*parts)


def usual_cron(hours: int) -> Cron | None:
    """The usual cron line for a time between runs; None where cron cannot say it."""
    text = _USUAL.get(hours)
    return None if text is None else parse_cron(text)


def due_hours(every: str, cron: str) -> int:
    """After how many hours without a run one is due. `cron` is empty where no times are given: the usual ones count then."""
    hours = every_hours(every)
    times = parse_cron(cron) if cron else usual_cron(hours)
    longest = 24 * _longest_days(times) if times is not None else 0
    return longest if hours < longest <= hours * _SAME else hours


def _longest_days(cron: Cron) -> int:
    """The longest pause between two days on which `cron` has a time; 0 where there are no two."""
    days, months, weekdays = (
        _numbers(field, limits) for field, limits in zip((cron.day, cron.month, cron.weekday), _FIELDS[2:], strict=True)
    )
    either = cron.day != "*" and cron.weekday != "*"

    def has(day: date) -> bool:
        found = (day.day in days, day.isoweekday() % 7 in weekdays or day.isoweekday() in weekdays)
        return day.month in months and (any(found) if either else all(found))

    first, count = _CYCLE
    on = [number for number in range(count) if has(first + timedelta(number))]
    return max((later - earlier for earlier, later in itertools.pairwise(on)), default=0)


def _numbers(field: str, limits: tuple[str, int, int]) -> frozenset[int]:
    found: set[int] = set()
    for item in field.split(","):
        match = _ITEM.fullmatch(item)
        assert match is not None  # `parse_cron` looked
        first, _, last = (f"{limits[1]}-{limits[2]}" if match[1] == "*" else match[1]).partition("-")
        end = int(last) if last else limits[2] if match[2] else int(first)
        found |= {*range(int(first), end + 1, int(match[2] or 1))}
    return frozenset(found)


def on_calendar(cron: Cron) -> str:
    """The same times for systemd's OnCalendar, in UTC. Raises ValueError where systemd means something else."""
    if cron.day != "*" and cron.weekday != "*":
        raise ValueError(f"'{cron}' restricts day of month and day of week: cron takes either, systemd would take both")
    days = "" if cron.weekday == "*" else f"{_weekdays(cron.weekday)} "
    date = f"*-{_times(cron.month, 1)}-{_times(cron.day, 1)}"
    return f"{days}{date} {_times(cron.hour, 0)}:{_times(cron.minute, 0)}:00 UTC"


def _times(field: str, least: int) -> str:
    times = []
    for item in field.split(","):
        match = _ITEM.fullmatch(item)
        assert match is not None  # `parse_cron` looked
        span, step = match[1], match[2]
        if span == "*":
            times.append("*" if step is None else f"{least:02d}/{step}")
        else:
            first, _, last = span.partition("-")
            text = f"{int(first):02d}..{int(last):02d}" if last else f"{int(first):02d}"
            times.append(text if step is None else f"{text}/{step}")
    return ",".join(times)


def _weekdays(field: str) -> str:
    names: list[str] = []
    for item in field.split(","):
        match = _ITEM.fullmatch(item)
        assert match is not None  # `parse_cron` looked
        first, _, last = ("0-6" if match[1] == "*" else match[1]).partition("-")
        numbers = range(int(first), int(last or first) + 1, int(match[2] or 1))
        names += [_DAYS[n] for n in numbers]
    return ",".join(dict.fromkeys(names))
