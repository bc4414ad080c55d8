"""How long a kernel that was interrupted has to end its cell."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.drill.plan.progress import Noted
from drlib.runbook.execution.execute import rolls_back
from drlib.runbook.execution.interrupt import Stop
from drlib.runs.journal import JOURNAL, DrillJournal
from drlib.runs.lock import alone

DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def kernel() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not end its cell."""
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"deaf\n"
        yield process
        process.kill()


def test_kernel_whose_run_rolls_back_is_killed_only_when_that_has_ended(kernel: subprocess.Popen[bytes]) -> None:
    stop, asked = Stop(grace_s=0.2), iter([True, True, True, False])
    stop.rolls_back = lambda: next(asked)
    with stop.kernel(lambda: kernel.pid if kernel.poll() is None else None):
        stop.request(signal.SIGTERM)
        assert kernel.wait(30) == -signal.SIGKILL
    assert list(asked) == []
    assert stop.signal is signal.SIGTERM


def test_run_rolls_back_from_the_abort_to_its_end_while_a_process_has_it(tmp_path: Path) -> None:
    """A step that was aborted is probed first, which takes its time on a cluster that answers slowly."""
    assert not rolls_back(tmp_path)
    journal = DrillJournal(tmp_path / JOURNAL)
    with alone(tmp_path, ".lock", "", ""):
        seen = []
        for event in (
            Noted.RUN_STARTED,
            Noted.STEP_STARTED,
            Noted.ABORT_REQUESTED,
            Noted.UNDO_STARTED,
            Noted.RUN_ENDED,
        ):
            journal.write(event, step="move", detail="")
            seen.append(rolls_back(tmp_path))
        assert seen == [False, False, True, True, False]
        journal.write(Noted.RUN_RESUMED, step="", detail="rollback")
        assert rolls_back(tmp_path)
    assert not rolls_back(tmp_path)
    journal.close()
