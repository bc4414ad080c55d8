"""What a step keeps can be read again, however much it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlib.drill.step.step_output import ROWS_PER_LINE, Row, read_rows, rows_path, write_rows
from drlib.errors import UsageError


def test_rows_of_a_hundred_thousand_positions_are_read_again(tmp_path: Path) -> None:
    """More values than one JSON document may hold: a failover that had moved its groups could neither go on nor be undone."""
    names = [f"column {number}" for number in range(11)]
    rows: list[Row] = [dict.fromkeys(names, n) for n in range(100_000)]
    write_rows(tmp_path, "translate", rows)
    assert list(read_rows(tmp_path, "translate")) == rows


@pytest.mark.parametrize("many", [0, 1, ROWS_PER_LINE, ROWS_PER_LINE + 1])
def test_rows_are_a_list_a_line(tmp_path: Path, many: int) -> None:
    rows: list[Row] = [{"n": n, "text": "a\nb"} for n in range(many)]
    write_rows(tmp_path, "s", rows)
    assert list(read_rows(tmp_path, "s")) == rows
    assert len(rows_path(tmp_path, "s").read_text().splitlines()) == max(1, -(-many // ROWS_PER_LINE))


def test_rows_that_are_not_there_are_none_and_those_that_were_changed_are_refused(tmp_path: Path) -> None:
    assert read_rows(tmp_path, "s") == ()
    write_rows(tmp_path, "s", [{"n": 1}])
    rows_path(tmp_path, "s").write_text('[{"n": 1}')
    with pytest.raises(UsageError, match="cannot be used"):
        read_rows(tmp_path, "s")


def test_rows_of_a_run_that_an_earlier_version_began_are_one_list_on_one_line(tmp_path: Path) -> None:
    rows: list[Row] = [{"n": n, "text": None} for n in range(ROWS_PER_LINE + 1)]
    write_rows(tmp_path, "s", [])
    rows_path(tmp_path, "s").write_text(json.dumps(rows))
    assert list(read_rows(tmp_path, "s")) == rows
