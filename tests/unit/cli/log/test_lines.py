"""The form of a worker's lines: text for logfmt parsers, JSON with stable keys, and nothing from outside that breaks out."""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import fields, replace

import pytest
from hostile_text import HOSTILE, is_one_plain_line

from drlib.cli.log.lines import LogLine, as_json, as_text, styled, timestamp
from drlib.mirror.status.event_kinds import Level
from drlib.ui.terminal.plain_console import plain_console

AT = 1_700_000_000_123
PARKED = LogLine(
    AT,
    Level.ERROR,
    "Parked",
    "open",
    flow="LEFT->RIGHT",
    lane=1,
    topic="orders",
    partition=3,
    entity="orders-3",
    count=1,
    since_ms=AT - 1000,
    detail="too large",
    remedy="Do this.",
)


def test_text_begins_with_time_level_name_and_has_each_field() -> None:
    assert as_text(PARKED) == (
        "2023-11-14T22:13:20.123Z ERROR   Parked open flow=LEFT->RIGHT lane=1 topic=orders partition=3 "
        'since=2023-11-14T22:13:19.123Z detail="too large" remedy="Do this."'
    )


def test_json_has_the_documented_keys_in_every_line() -> None:
    keys = [
        "time", "level", "name", "status", "worker", "flow", "lane", "topic", "partition", "entity", "count", "detail",
        "remedy", "traceback", "since",
    ]  # fmt: skip
    parked, bare = json.loads(as_json(PARKED)), json.loads(as_json(LogLine(AT, Level.INFO, "Worker")))
    assert list(parked) == list(bare) == keys
    assert (parked["time"], parked["level"], parked["partition"], parked["worker"]) == (
        "2023-11-14T22:13:20.123Z", "error", 3, None,
    )  # fmt: skip
    assert [value for key, value in bare.items() if key not in ("time", "level", "name")] == [None] * 12


def test_timestamp_is_iso_8601_in_utc_with_milliseconds() -> None:
    assert timestamp(7) == "1970-01-01T00:00:00.007Z"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_text_and_json_of_text_from_outside_are_one_line_with_the_fields_given(text: str) -> None:
    line = replace(
        LogLine(AT, Level.INFO, "Parked", "open"),
        **{field.name: text for field in fields(LogLine) if field.type == "str" and field.name != "traceback"},  # type: ignore[arg-type]
    )
    plain = as_text(replace(line, name="Parked", status="open"))
    assert is_one_plain_line(plain)
    assert is_one_plain_line(as_json(line))
    assert json.loads(as_json(line))["detail"] == (text or None)
    found = dict(part.split("=", 1) for part in shlex.split(plain, posix=True)[4:] if "=" in part)
    assert set(found) <= {"worker", "flow", "topic", "entity", "detail", "remedy"}  # no field is forged


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_styled_text_from_outside_has_no_control_sequence_of_its_own(text: str) -> None:
    out = io.StringIO()
    plain_console(file=out, width=60).print(*styled(replace(PARKED, entity=text, detail=text, remedy=text)), sep="\n")
    assert all(row.isprintable() for row in out.getvalue().split("\n"))


def test_traceback_is_lines_with_a_time_in_text_and_one_field_in_json() -> None:
    line = LogLine(
        AT, Level.ERROR, "asyncio", detail="unexpected", traceback="Traceback:\n  File \"x\"\nKeyError: '\x1b'\n"
    )
    rows = as_text(line).split("\n")
    assert len(rows) == 4
    assert all(re.match(r"2023-11-14T22:13:20\.123Z ERROR   asyncio ", row) for row in rows)
    assert all(map(is_one_plain_line, rows))
    assert json.loads(as_json(line))["traceback"] == line.traceback


def test_styled_wraps_detail_and_remedy_below_the_head() -> None:
    out = io.StringIO()
    plain_console(file=out, width=100).print(*styled(replace(PARKED, detail="word " * 30)), sep="\n")
    head, *rest = out.getvalue().splitlines()
    assert head.startswith("22:13:20.123Z ERROR   Parked open since 22:13:19, LEFT->RIGHT, lane 1, orders-3")
    assert all(row.startswith("    ") for row in rest if row)
