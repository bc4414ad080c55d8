"""What DuckDB says of a topic and its mirror: the same questions as the audit's, asked again without Spark and in SQL.

Rules: shares no code with `drlib.analysis`; content is compared by its bytes, not by a hash. For samples: everything is in
memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

Row = Sequence[Any]  # partition, offset, timestamp, key, value, headers; as `read_topic`'s columns
FIELDS = ("key", "value", "headers", "millis")
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("place", pa.int64()),
        ("millis", pa.int64()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("headers", pa.string()),
        ("id", pa.string()),
    ]
)
_LIKE = " and ".join(f"l.{name} is not distinct from r.{name}" for name in ("partition", *FIELDS))
_NUMBERED = (
    "select *, row_number() over (partition by partition, key, value, headers, millis order by place) as nth from {}"
)
_ONE_DIFFERS = " + ".join(f"(l.{name} is distinct from r.{name})::int" for name in FIELDS)
_SAME_RECORD = f"l.partition = r.partition and ((l.id is not null and l.id = r.id) or ({_ONE_DIFFERS}) = 1)"


def second_opinion(left: Iterable[Row], right: Iterable[Row]) -> dict[str, int]:
    """Faults by their name, those that are there."""
    db = duckdb.connect()
    db.register("left_rows", _table(left))
    db.register("right_rows", _table(right))
    db.execute(f"create table l as {_NUMBERED.format('left_rows')}")
    db.execute(f"create table r as {_NUMBERED.format('right_rows')}")
    db.execute(f"create table pairs as select l.*, r.place as target from l join r on {_LIKE} and l.nth = r.nth")
    db.execute(f"create table lost as select * from l where not exists (from r where {_LIKE} and l.nth = r.nth)")
    db.execute(f"create table extra as select * from r where not exists (from l where {_LIKE} and l.nth = r.nth)")
    db.execute(f"create table again as select r.* from extra r where exists (from l where {_LIKE})")
    db.execute(
        "create table altered as select distinct on (l.partition, l.place) l.partition, l.place, r.place as target"
        f" from lost l join (select * from extra except select * from again) r on {_SAME_RECORD}"
    )
    db.execute(
        "create table late as select *, max(place) over (partition by partition, key order by target"
        " rows between unbounded preceding and 1 preceding) as ahead from pairs"
    )
    asked = {
        "missing": "select count(*) from lost anti join altered using (partition, place)",
        "altered": "select count(*) from altered",
        "duplicated": "select count(*) from again",
        "invented": "select count(*) from (select * from extra except select * from again) r"
        " where not exists (from altered a where a.partition = r.partition and a.target = r.place)",
        "out-of-order": "select count(*) from late where place < ahead",
    }
    answers = {}
    for name, question in asked.items():
        answer = db.execute(question).fetchone()
        assert answer is not None
        answers[name] = int(answer[0])
    db.close()
    return {name: count for name, count in answers.items() if count}


def _table(rows: Iterable[Row]) -> pa.Table:
    columns: list[list[object]] = [[] for _ in _SCHEMA]
    for partition, offset, at, key, value, headers in rows:
        pairs = [(name, _text(content)) for name, content in headers or ()]
        reported = next((content for name, content in pairs if name == "id"), None)
        millis = round(at.timestamp() * 1000) if isinstance(at, datetime) else at
        for column, cell in zip(
            columns, (partition, offset, millis, _text(key), _text(value), json.dumps(pairs), reported), strict=True
        ):
            column.append(cell)
    return pa.table(dict(zip(_SCHEMA.names, columns, strict=True)), schema=_SCHEMA)


def _text(content: object) -> str | None:
    """Bytes as hex, so that null, empty and everything else differ."""
    return content.hex() if isinstance(content, bytes) else None
