"""The stream of flights: the package's rows, by departure, numbered within their keys, from any position on."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from drlib.lab.apps import flights
from drlib.lab.apps.flights import stream


def test_stream_first_flight() -> None:
    first = next(stream())
    assert (first.position, first.id, first.key, first.n, first.carrier) == (0, "0", "UA1545", 0, "UA")
    row = json.loads(first.value)
    assert (row["origin"], row["dest"], row["dep_time"], row["tailnum"]) == ("EWR", "IAH", 517, "N14228")
    assert row["time_hour"] == "2013-01-01T10:00:00Z"
    assert first.event_ms == 1357035300000
    assert set(row) == {
        "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
        "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour",
    }  # fmt: skip


def test_stream_is_ordered_and_numbers_keys() -> None:
    numbers: dict[str, int] = {}
    before = 0
    for position, flight in enumerate(islice(stream(), 5000)):
        assert flight.position == position
        assert flight.n == numbers.get(flight.key, 0)
        assert flight.event_ms >= before
        numbers[flight.key] = flight.n + 1
        before = flight.event_ms


@pytest.mark.parametrize("start", [1, 1999, 2000, 4321])
def test_stream_start_at_continues_the_same_stream(start: int) -> None:
    assert list(islice(stream(start), 50)) == list(islice(stream(), start, start + 50))


def test_stream_cancelled_flight_has_nulls() -> None:
    cancelled = next(json.loads(f.value) for f in stream() if b'"dep_time":null' in f.value)
    assert (cancelled["dep_time"], cancelled["air_time"]) == (None, None)


def test_stream_repeats_the_year() -> None:
    around = list(islice(stream(flights.ROWS - 1), 2))
    assert [f.position for f in around] == [flights.ROWS - 1, flights.ROWS]
    assert around[1].id == str(flights.ROWS)
    assert (around[1].key, around[1].value) == ("UA1545", next(stream()).value)
    assert around[1].n == 85  # UA1545 left 85 times that year


def test_stream_broken_cache_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "drlib").mkdir()
    cached = tmp_path / "drlib" / flights._CACHE_NAME
    cached.write_bytes(b"half a file")
    assert next(stream()).id == "0"
    assert flights._open(cached).num_rows == flights.ROWS
    assert [path.name for path in cached.parent.iterdir()] == [cached.name]
