"""`drlib init` without brokers: what it refuses, and what it writes of clusters that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import drlib, error_line
from silent_clusters import silent_clusters

from drlib.runbook.first_runbooks.runbooks import KINDS

HEAD = "clusters = paris, lyon\nparis.bootstrap.servers = 127.0.0.1:{}\nlyon.bootstrap.servers = 127.0.0.1:{}\n"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    with silent_clusters(tmp_path / "mirror.properties", "paris", "lyon") as path:
        yield path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rto", "5"], "'5' is not a valid RTO"),
        (["--rpo", "soon"], "'soon' is not a valid RPO"),
        (["--rpo-records", "-1"], "'-1' is not a number of records"),
        (["--dir", "README.md"], "README.md is not a folder"),
        (["--dir", "README.md/in"], "README.md/in cannot be written"),
        (
            ["--force", "nope.yaml"],
            "--force nope.yaml: drlib init writes no such file. Its files are rehearse.yaml, failover.yaml",
        ),
        (["--flow", "lyon->paris"], "flow lyon->paris is not enabled"),
        (["--flow", "paris->rome"], "has no flow paris->rome"),
    ],
)
def test_init_refuses_a_slip_before_anything_is_asked(file: Path, options: list[str], said: str) -> None:
    assert said in error_line(drlib("init", str(file), *options), 2), "error_line takes one line: nothing was asked"
    assert not (file.parent / "runbooks").exists()


def test_init_of_a_file_without_an_enabled_flow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mirror.properties").write_text(HEAD.format(1, 2))
    assert "enables no flow" in error_line(drlib("init", str(tmp_path / "mirror.properties")), 2)


def test_init_of_silent_clusters_names_them_writes_and_lets_the_doctor_speak(file: Path) -> None:
    done = drlib("init", str(file), "--rto", "5m", "--rpo-records", "0")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    for alias in ("paris", "lyon"):
        assert f"{alias} did not answer: " in done.stdout
    assert "paris->lyon: names are prefixed (the default, as the file has no replication.policy.class)." in done.stdout
    assert "Names are not asked for: it is not known whether topics are mirrored already." in done.stdout
    folder = file.parent / "runbooks"
    assert f"written: {folder / 'failover.yaml'}" in done.stdout
    assert f"drlib run {folder / 'rehearse.yaml'} {file}" in done.stdout
    assert "paris->lyon: not ready" in done.stdout
    assert done.stdout.count("  critical: ") == 2
    assert f" more: drlib doctor {file}\n" in done.stdout
    assert "rto_seconds: 300" in (folder / "failover.yaml").read_text()
    again = drlib("init", str(file))
    assert "nothing to write" in again.stdout
    none = drlib("init", str(file), "--rto", "none", "--rpo-records", "none", "--force", "failover.yaml")
    assert none.stdout.count("written: ") == 1
    assert "rto_seconds" not in (folder / "failover.yaml").read_text()


def test_init_names_files_by_the_flows_of_the_file_and_not_by_those_that_were_chosen(file: Path) -> None:
    """One flow after the other, each replaced the runbooks of the one before."""
    drlib("init", str(file))
    folder, kinds = file.parent / "runbooks", set(KINDS)
    file.write_text(file.read_text() + "lyon->paris.enabled = true\n")
    for flow in ("paris->lyon", "lyon->paris"):
        done = drlib("init", str(file), "--flow", flow)
        assert f"left from one flow in {folder}: {', '.join(f'{kind}.yaml' for kind in KINDS)}: " in done.stdout
    there = {path.stem for path in folder.glob("*.yaml")}
    assert there == kinds | {f"{kind}-{flow}" for kind in kinds for flow in ("paris-lyon", "lyon-paris")}
    for name, flow in (("", "paris->lyon"), ("-paris-lyon", "paris->lyon"), ("-lyon-paris", "lyon->paris")):
        assert f'flow: "{flow}"' in (folder / f"failover{name}.yaml").read_text()


def test_init_force_of_another_name_is_refused(file: Path) -> None:
    done = drlib("init", str(file), "--force", "mine.yaml")
    assert done.returncode == 2
    assert "drlib: --force mine.yaml: drlib init writes no such file" in done.stderr
    assert not (file.parent / "runbooks").exists()


def test_init_to_a_folder_that_is_a_file_is_refused(file: Path) -> None:
    done = drlib("init", str(file), "--dir", str(file))
    assert done.returncode == 2
    assert "cannot be" in done.stderr
    assert "Traceback" not in done.stderr
