"""A tiny benchmark on real brokers, from making the backlog to the files it leaves."""

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from bench import drills, results, running
from bench.__main__ import main
from bench.site import site
from bench.workloads import WORKLOADS, Link
from drlib.lab.lab import Lab


@pytest.mark.long
def test_bench_small_catch_up_is_compared_with_raw_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(WORKLOADS, "a", running.scaled(WORKLOADS["a"], 0.03))
    assert main(["--workloads", "a", "--engines", "drlib,floor", "--results", str(tmp_path)]) == 0
    found = results.read(tmp_path / "latest.json")
    assert found is not None
    ours = results.value(found.rows(), "a", "drlib", "throughput")
    floor = results.value(found.rows(), "a", "floor", "fetch only")
    assert ours is not None
    assert floor is not None
    assert 0 < ours.median < floor.median
    measured = {row.metric: row.median for row in found.rows() if row.engine == "drlib"}
    assert measured["records"] * 1024 / 1e6 == pytest.approx(measured["throughput"])
    assert 20 < measured["memory"] < 2000
    assert 0 < measured["cpu"] < 1000
    assert 0 < measured["first record"] < 60
    assert "latest.html" in capsys.readouterr().out
    assert (tmp_path / "latest.html").stat().st_size > 1_000_000


def test_failback_few_groups_are_at_their_records(lab: Lab) -> None:
    few = replace(WORKLOADS["k-50"], partitions=4, groups=3)
    found = drills.measure(site(lab, Link.NONE), few, secrets.token_hex(3))
    assert found.metrics["not exact"] == 0
    assert 0 < found.metrics["groups moved"] < 30
    assert found.metrics["each group"] == pytest.approx(found.metrics["groups moved"] * 1000 / 3)
