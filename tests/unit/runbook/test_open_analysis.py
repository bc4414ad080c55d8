"""Analyses opened by hand: what is wrong with an argument is said in a sentence, before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drlib.errors import Unreachable, UsageError
from drlib.runbook.open_analysis import (
    open_continuous_audit,
    open_duplicates_audit,
    open_lag_analysis,
    open_nightly_audit,
)
from drlib.runbook.open_drill import open_drill


@pytest.fixture
def properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    file = tmp_path / "flows.properties"
    file.write_text(
        "clusters = eu-west.prod, us.east-1\neu-west.prod.bootstrap.servers = 127.0.0.1:1\n"
        "us.east-1.bootstrap.servers = 127.0.0.1:2\neu-west.prod->us.east-1.enabled = true\n"
    )
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return str(file)


@pytest.mark.parametrize(
    ("opener", "arguments", "why"),
    [
        (open_nightly_audit, {"topics": "orders"}, "parameter topics: 'orders' is not a list"),
        (open_nightly_audit, {"lag_seconds": "300"}, "parameter lag_seconds: '300' is not a float"),
        (open_duplicates_audit, {"allow": "producer"}, "parameter allow: 'producer' is not a list"),
        (open_duplicates_audit, {"flow": 5}, "parameter flow: 5 is not a str"),
        (open_lag_analysis, {"window": 5}, "parameter window: 5 is not a str"),
        (open_lag_analysis, {"window": "0s"}, "a window of 0s: there is no time in it"),
        (open_nightly_audit, {"master": "loca"}, "loca is no Spark master"),
        (open_nightly_audit, {"master": "local[two]"}, "local[two] is no Spark master"),
        (open_continuous_audit, {"state": "../state", "bucket_seconds": "60"}, "parameter bucket_seconds: '60' is not"),
    ],
)
def test_open_analysis_wrong_argument_is_refused(
    properties: str, opener: Callable[..., object], arguments: dict[str, object], why: str
) -> None:
    with pytest.raises(UsageError) as refused:
        opener(properties=properties, **arguments)
    assert str(refused.value).startswith(why)


def test_open_analysis_master_that_does_not_answer_is_said(properties: str) -> None:
    with pytest.raises(Unreachable, match="no Spark master answers at spark:"):
        open_nightly_audit(properties=properties, master="spark://127.0.0.1:1")


@pytest.mark.parametrize("inside", ["", "/run"])
def test_open_run_folder_that_is_a_file_is_refused(properties: str, inside: str) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        open_nightly_audit(f"{properties}{inside}", properties=properties)
    with pytest.raises(UsageError, match="is not a folder"):
        open_drill("rehearse-failover", f"{properties}{inside}", properties=properties)
    with pytest.raises(UsageError, match="is not a folder"):
        open_continuous_audit(properties=properties, state=f"{properties}{inside}")
