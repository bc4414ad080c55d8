"""Steps that start and break a lab's processes: a process that resumes the run finds what the one before has started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed_moves
from testbed_moves import Place, step

from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output as details
from drlib.drill.testbed import sampler
from drlib.drill.testbed.failover_testbed import APPLICATIONS, FailoverTestbed
from drlib.lab.lab import Lab
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

STEPS = (
    step("start", "lab.applications", records_per_second=500.0, backlog=2000, delays_per_second=400.0),
    step("mirror", "lab.mirror", number=1, lanes=2),
    step("steady", "lab.steady"),
    step("kill-the-mirror", "lab.kill_mirror", number=1),
    step("mirror-again", "lab.mirror", number=2, lanes=2),
    step("kill-right", "lab.kill", cluster="RIGHT", noticed=False),
    step("restart-right", "lab.restart", cluster="RIGHT"),
    step("stop", "lab.stop"),
)


@pytest.fixture
def detached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Clusters whose processes outlive the one that started them, as `drlib lab up` leaves them."""
    lab = Lab(tmp_path_factory.mktemp("lab-actions"), detach=True)
    try:
        yield lab.up()
    finally:
        lab.down()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_killed_between_and_within_steps_the_stage_is_found_again_and_taken_down(detached: Lab, tmp_path: Path) -> None:
    drill, place = testbed_moves.drill(*STEPS), Place(lab=str(detached.root))

    def run(**options: object) -> int:
        return testbed_moves.in_process(tmp_path, drill, place, **options)  # type: ignore[arg-type]

    assert run(kill=3) == -9  # the applications run, nothing else
    stage = FailoverTestbed(detached, tmp_path)
    assert all(stage.started(name) for name in APPLICATIONS)
    pids = {status.name: status.pid for status in detached.status() if status.alive}
    assert run(kill=8) == -9  # some steps later, in one that began
    assert run() == 0
    lines = journal.read(tmp_path / JOURNAL)
    done = [str(line.data["step"]) for line in lines if line.event == "step-succeeded"]
    assert done == [one.name for one in STEPS]
    alive = {status.name: status.pid for status in detached.status() if status.alive}
    assert alive.keys() == {"proxy", "LEFT-1", "RIGHT-1", "mirror-2"}
    assert alive["LEFT-1"] == pids["LEFT-1"]
    assert alive["RIGHT-1"] != pids["RIGHT-1"]
    assert stage.applications.done("flights") > 2000
    assert len(sampler.read(tmp_path)) > 4
    assert moments.at(tmp_path, "fault") is not None
    marks = [mark.name for one in STEPS for mark in details.read_part(tmp_path, one.name).marks]
    assert marks == ["mirror killed", "mirror back", "RIGHT killed", "RIGHT restarted"]
    assert {row["application"] for row in details.read_rows(tmp_path, "steady")} >= {"flights", "delays", "mirror"}
