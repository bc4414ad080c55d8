"""`drlib run RUNBOOK FILE` for every runbook of own clusters: a flow that is not clear is refused before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.cli.drill.run import Wanted, run_runbook
from drlib.drill.run.request import ClusterTarget
from drlib.errors import UsageError

DRILLS = ("emergency-failover", "rehearse-failover", "planned-switchover")
ANALYSES = ("nightly-audit", "duplicates-audit", "lag-report", "continuous-audit")


def file(folder: Path, *enabled: str) -> Path:
    path = folder / "mm2.properties"
    lines = ["clusters = paris, lyon", "paris.bootstrap.servers = 127.0.0.1:1", "lyon.bootstrap.servers = 127.0.0.1:2"]
    path.write_text("\n".join([*lines, *(f"{flow}.enabled = true" for flow in enabled)]))
    return path


def refused(name: str, path: Path, *pairs: str) -> str:
    """What is said of the run, which left no folder."""
    runs = path.parent / "runs"
    with pytest.raises(UsageError) as error:
        run_runbook(ROOT / "runbooks" / f"{name}.yaml", list(pairs), Wanted(runs, target=ClusterTarget(path)))
    assert error.value.exit_code == 2
    assert not runs.exists()
    return str(error.value)


@pytest.mark.parametrize("name", [*DRILLS, *ANALYSES])
def test_run_with_several_enabled_flows_is_refused_with_the_command(name: str, tmp_path: Path) -> None:
    path = file(tmp_path, "paris->lyon", "lyon->paris")
    said = refused(name, path)
    assert "2 flows are enabled there: paris->lyon, lyon->paris" in said
    assert f"runbooks/{name}.yaml {path} -p 'flow=paris->lyon'" in said


@pytest.mark.parametrize("name", [*DRILLS, *ANALYSES])
def test_run_of_a_flow_that_the_file_lacks_is_refused(name: str, tmp_path: Path) -> None:
    said = refused(name, file(tmp_path, "paris->lyon"), "flow=paris->nice")
    assert "has no flow paris->nice: its clusters are paris, lyon, and its enabled flows are paris->lyon" in said


@pytest.mark.parametrize("name", DRILLS)
def test_run_of_a_disabled_flow_is_refused(name: str, tmp_path: Path) -> None:
    assert "flow lyon->paris of" in refused(name, file(tmp_path, "paris->lyon"), "flow=lyon->paris")


@pytest.mark.parametrize(
    ("name", "pair", "said"),
    [
        ("failover-drill", "names=foo", "identical"),
        ("failback-drill", "tail=foo", "recover"),
        ("ordering-drill", "scope=foo", "topic"),
        ("game-day", "level=9", "Use 0, 1, 2, 3, 4, 5, 6."),
        ("game-day", "seed=-1", "Use 0 or a greater number."),
        ("game-day", "player=foo", "Use you, reference."),
        ("size-the-link", "rtt=abc", "Write 200ms, 30s, 24h or 7d."),
        ("size-the-link", "rate=5", "Write 5MB/s or 1Gb/s"),
        ("size-the-link", "partitions=0", "Use 1 or a greater number."),
        ("lag-report", "window=", "Write 200ms, 30s, 24h or 7d."),
    ],
)
def test_run_with_a_wrong_parameter_is_refused_before_its_lab_is_started(
    name: str, pair: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        run_runbook(ROOT / "runbooks" / f"{name}.yaml", [pair], Wanted(tmp_path / "runs", lab=True))
    assert said in str(error.value)
    assert list(tmp_path.iterdir()) == []
