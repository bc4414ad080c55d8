"""Every shipped runbook for a lab also runs on a secured one: TLS, logins, ACLs, three brokers in each cluster.

Analyses share one lab; a drill has one of its own, as it refuses topics that are there. Drills come first: the shared lab
starts after them, so that there are never two.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SECURED = ("--secured", "--brokers", "3")
SHARED = (
    "lag-report",
    "duplicates-audit",
    "nightly-audit",
    "continuous-audit",
    "size-the-link",
)
OWN = (
    "ordering-drill",
    "active-active",
    "failover-drill",
    "failback-drill",
    "game-day",
    "switchover-drill",
    "planned-switchover",
    "rehearse-failover",
)


def cli(folder: Path, *arguments: str, deadline_s: float = 600) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "drlib.cli", *arguments]
    return subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=deadline_s, check=False, stdin=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("secured") / "lab"
    started = cli(folder.parent, "lab", "up", "--dir", str(folder), *SECURED)
    assert started.returncode == 0, started.stdout + started.stderr
    yield folder
    assert cli(folder.parent, "lab", "down", "--dir", str(folder)).returncode == 0


@pytest.mark.parametrize("runbook", OWN)
def test_runbook_passes_on_a_secured_lab_of_its_own(runbook: str, tmp_path: Path) -> None:
    slow = ("-p", "stopped_seconds=20") if runbook in ("failback-drill", "planned-switchover") else ()  # two cores
    done = cli(tmp_path, "run", runbook, "--lab", *SECURED, *slow)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("runbook", SHARED)
def test_runbook_passes_on_a_secured_lab_that_runs(runbook: str, lab: Path, tmp_path: Path) -> None:
    done = cli(tmp_path, "run", runbook, "--lab-dir", str(lab))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stdout + done.stderr
