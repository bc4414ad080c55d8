"""`drlib failover` for what it refuses, without brokers; and what its screen reads of a run's folder."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import drlib, error_line


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Clusters at ports of this machine without a listener, held so that no other process takes them."""
    with socket.socket() as one, socket.socket() as two:
        for held in (one, two):
            held.bind(("127.0.0.1", 0))
        path = tmp_path / "mm2.properties"
        path.write_text(
            f"clusters = paris, lyon\nparis.bootstrap.servers = 127.0.0.1:{one.getsockname()[1]}\n"
            f"lyon.bootstrap.servers = 127.0.0.1:{two.getsockname()[1]}\nparis->lyon.enabled = true\n"
        )
        yield path


def test_failover_to_a_target_that_does_not_answer_is_refused_with_the_assessment(file: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    refused = drlib("failover", str(file), "--yes", "lyon", "--json", "--runs-dir", str(runs))
    assert "lyon cannot take over" in error_line(refused, 11)
    (made,) = map(json.loads, refused.stdout.splitlines())
    assert (made["event"], made["flow"], made["next"], made["target_answers"]) == (
        "assessment",
        "paris->lyon",
        "refuse",
        False,
    )
    assert made["loss"]["records"] is None
    assert made["groups_unknown"] == "lyon does not answer"
    assert not runs.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--yes", "paris"), "'paris' was given to confirm it. Give lyon."),
        (("--yes", "Lyon"), "'Lyon' was given to confirm it. Give lyon."),
        (("lyon->paris",), "Name one: drlib failover"),
        (("paris->nice",), "has no flow paris->nice"),
        (("--runbook", "runbooks/rehearse-failover.yaml"), "it is not one of an emergency"),
        (("--runbook", "notebooks"), "none of failover.yaml, failover-paris-lyon.yaml is in notebooks"),
    ],
)
def test_failover_that_is_not_meant_is_refused_before_anything_is_asked(
    file: Path, arguments: tuple[str, ...], words: str
) -> None:
    said = error_line(drlib("failover", str(file), *arguments), 2)
    assert words in said


def test_failover_takes_the_runbook_beside_the_file_and_refuses_one_of_another_flow(file: Path) -> None:
    folder = file.parent / "runbooks"
    folder.mkdir()
    shipped = (Path("runbooks") / "emergency-failover.yaml").read_text()
    notebook = (Path("notebooks") / "10_run_a_drill.ipynb").absolute()
    other = shipped.replace('"${flow}"', '"lyon->paris"').replace("../notebooks/10_run_a_drill.ipynb", str(notebook))
    (folder / "failover.yaml").write_text(other)
    assert "it is for lyon->paris, not for paris->lyon" in error_line(drlib("failover", str(file)), 2)
