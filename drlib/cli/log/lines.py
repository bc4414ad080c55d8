"""What a worker writes: one line for each event, change of state, error or message of a library. Pure.

Rules:
- Every line begins with its time in UTC; what follows it is the level, the name, and fields `key=value` that are quoted where
  they have to be, so that the line can be read by people and by any logfmt parser. JSON has the same fields under the same
  names, all of them in every line, null where they do not apply.
- Nothing from outside can begin a line, end one or reach the terminal as a control sequence (`formats.one_line`; JSON by
  its own escapes).
- A traceback (of a defect only) is one field in JSON and lines of their own in text, each with the time in front.
- On a terminal (`styled`) the detail and the remedy are on lines of their own, indented, and the level has a colour.
Not for: deciding what is worth a line (`worker_lines`), nor for writing it (`setup`).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from rich.padding import Padding
from rich.text import Text

from drlib import formats
from drlib.mirror.status.event_kinds import Level

COLOURS: Final = {Level.DEBUG: "dim", Level.INFO: "green", Level.WARNING: "yellow", Level.ERROR: "bold red"}
_PLAIN_VALUE: Final = re.compile(r"[^\s\"=]+")


@dataclass(frozen=True, slots=True)
class LogLine:
    """`status`: open, more (entities), resolved or brief for events; the worker's state for changes of it.

    `since_ms`: when the event opened. `count`: of the entities that the event is about; `entity`: the first ones.
    """

    at_ms: int
    level: Level
    name: str
    status: str = ""
    worker: str = ""
    flow: str = ""
    lane: int | None = None
    topic: str = ""
    partition: int | None = None
    entity: str = ""
    count: int | None = None
    since_ms: int = 0
    detail: str = ""
    remedy: str = ""
    traceback: str = ""


def timestamp(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, "2026-11-23T07:17:14.123Z"."""
    return formats.iso(at_ms).replace(" ", "T") + "Z"


def as_json(line: LogLine) -> str:
    """One line of JSON with every field; null is "does not apply"."""
    fields = asdict(line)
    at_ms, since_ms = fields.pop("at_ms"), fields.pop("since_ms")
    shown = {
        "time": timestamp(at_ms),
        **fields,
        "level": line.level.name.lower(),
        "since": timestamp(since_ms) if since_ms else None,
    }
    return json.dumps({key: None if value == "" else value for key, value in shown.items()})


def as_text(line: LogLine) -> str:
    """One line; with a traceback, one more for each of its lines."""
    head = f"{timestamp(line.at_ms)} {line.level.name:7}"
    fields = {
        "worker": line.worker,
        "flow": line.flow,
        "lane": line.lane,
        "topic": line.topic,
        "partition": line.partition,
        "entity": "" if line.entity == line.flow or (line.topic and line.count == 1) else line.entity,
        "count": "" if line.count == 1 else line.count,
        "since": timestamp(line.since_ms) if line.since_ms else "",
        "detail": line.detail,
        "remedy": line.remedy,
    }
    shown = [f"{key}={_value(value)}" for key, value in fields.items() if value not in ("", None)]
    rows = [" ".join([head, *filter(None, (line.name, line.status)), *shown])]
    rows += [f"{head} {line.name} traceback {formats.one_line(row)}" for row in line.traceback.splitlines()]
    return "\n".join(rows)


def styled(line: LogLine) -> list[Text | Padding]:
    """The line for a terminal: a head, and below it what fits no line of a terminal's width."""
    about = [
        f"since {formats.clock(line.since_ms)[:8]}" if line.since_ms else "",
        line.flow,
        "" if line.lane is None else f"lane {line.lane}",
        "" if line.entity == line.flow else line.entity,
    ]
    head = Text.assemble(
        (f"{formats.clock(line.at_ms)}Z ", "dim"),
        (f"{line.level.name:7} ", COLOURS[line.level]),
        (formats.one_line(" ".join(filter(None, (line.worker, line.name)))), "bold"),
        formats.one_line(f" {line.status} {', '.join(filter(None, about))}".rstrip()),
    )
    rows: list[Text | Padding] = [head]
    for text, style in ((line.detail, ""), (line.remedy, "cyan")):
        rows += [Padding(Text(formats.one_line(text), style=style), (0, 0, 0, 4))] if text else []
    rows += [Padding(Text(formats.one_line(row), style="dim"), (0, 0, 0, 4)) for row in line.traceback.splitlines()]
    return rows


def _value(value: object) -> str:
    text = formats.one_line(str(value))
    return text if _PLAIN_VALUE.fullmatch(text) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
