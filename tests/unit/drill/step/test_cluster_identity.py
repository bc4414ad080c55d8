"""What runs beside a run keep of a cluster, whatever else is in the folder of runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.drill.step.cluster_identity import rows_beside
from drlib.drill.step.step_output import write_rows
from drlib.errors import Unreachable, UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings

NOBODY = 65534
SILENT = ClusterSettings("west", ("127.0.0.1:1",))


@pytest.fixture
def runs() -> Iterator[Path]:
    """The folder of runs of a user who is not root, on a volume of its own."""
    with tempfile.TemporaryDirectory() as made:
        runs = Path(made) / "runs"
        (runs / "lost+found").mkdir(parents=True)
        (runs / "lost+found").chmod(0o700)
        os.chown(made, NOBODY, NOBODY)
        os.chown(runs, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield runs
        finally:
            os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a folder that another user may not read")
def test_rows_beside_passes_over_folders_that_are_no_runs_and_cannot_be_read(runs: Path) -> None:
    own = runs / "20261128T100000Z-fail-back-00aa11"
    own.mkdir()
    assert rows_beside(own, "write-rows.west", SILENT) == {}
    write_rows(runs / "20261128T090000Z-emergency-00aa12", "write-rows.west", [{"cluster_id": "x"}])
    with pytest.raises(Unreachable):
        rows_beside(own, "write-rows.west", SILENT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a folder that another user may not read")
def test_rows_beside_of_a_run_that_cannot_be_read_are_not_none(runs: Path) -> None:
    other = runs / "20261128T090000Z-emergency-00aa12"
    os.seteuid(0)
    other.mkdir(mode=0o700)
    os.seteuid(NOBODY)
    with pytest.raises(UsageError, match="Permission denied"):
        rows_beside(runs / "own", "write-rows.west", SILENT)
