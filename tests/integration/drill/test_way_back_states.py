"""The second half of a flow's states on real brokers: reprotect and fail-back killed, aborted, rolled back, failed.

The tests run in their order. The failover was made by hand, and is declared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_engine import commit, create_topic, wait_for
from repository_root import ROOT
from testbed_way_back import BACK, FLOW, GROUP, MIRROR, TOPIC, Night, a_night, in_process

from drlib import publish_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.states import DrillState as S
from drlib.drill.session.declare_serving import declare_serving
from drlib.kafka.admin.cluster import Cluster
from drlib.mirror.offsets.unreplicated.settle import read_ledger
from drlib.runbook import plans
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

KILLED = -9


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with a_night(tmp_path_factory.mktemp("night")) as night:
        create_topic(night.lab.clusters["lyon"].bootstrap, TOPIC, 1)  # where applications write on lyon
        yield night


def moved_by_hand(night: Night) -> None:
    """The applications are on lyon, have read all there, and that is declared."""
    publish_pointer(night.file, "lyon")
    declare_serving(night.settings("lyon"), FLOW, "lyon")
    wait_for("the flow is not mirrored", lambda: night.members(FLOW) == 0)
    night.write("lyon", 10)
    read_all(night)


def read_all(night: Night) -> None:
    for topic in (MIRROR, TOPIC):
        if night.end("lyon", topic):
            commit(night.lab.clusters["lyon"].bootstrap, GROUP, topic, night.end("lyon", topic))


def positions(night: Night, alias: str) -> dict[str, int]:
    with Cluster(night.settings(alias)) as cluster:
        return {partition.topic: at.offset for partition, at in cluster.group_offsets(GROUP).items()}


def settled(night: Night) -> tuple[int, int]:
    """How many unreplicated records were recovered and quarantined, as the ledger counts them."""
    with Cluster(night.settings("lyon")) as cluster:
        progress = read_ledger(cluster).progress.values()
    return sum(each.recovered for each in progress), sum(each.quarantined for each in progress)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_way_back_killed_after_each_change_and_continued_settles_and_moves_once(night: Night, tmp_path: Path) -> None:
    night.leave_a_tail(20, read_of_it=5)
    moved_by_hand(night)
    night.lab.clusters["paris"].start()
    night.start_worker()
    wait_for("lyon->paris is mirrored", lambda: night.members(FLOW.reverse) == 1)
    copied, runs = night.end("lyon", MIRROR), tmp_path / "runs"
    reprotect = runs / "reprotect"
    for step in ("fence", "settle", "caught-up"):
        stop = f"step-succeeded {step}"
        assert in_process(night, "reprotect", reprotect, stop_at=stop, tail="quarantine") == KILLED
        assert night.state().state is S.REPROTECTING
    assert in_process(night, "reprotect", reprotect, tail="quarantine") == 0
    assert night.state().state is S.REPROTECTED
    assert settled(night) == (0, 20)
    assert night.end("lyon", MIRROR) == copied
    assert night.end("paris", TOPIC) == 420  # nothing was truncated

    fail_back = runs / "fail-back"
    for step in ("topics", "go-home", "verify"):
        assert in_process(night, "fail-back", fail_back, stop_at=f"step-succeeded {step}") == KILLED
        assert night.state().state is S.FAILING_BACK
        assert night.active == ("lyon" if step == "topics" else "paris")
    assessed, *more = night.cli("failback", str(night.file), str(FLOW), "--yes", "paris")[0]
    assert (assessed["next"], assessed["run"], assessed["next_step"]) == ("continue", "fail-back", "verify")
    assert [each["exit_code"] for each in more if each["event"] == "result"] == [0]
    assert (night.state().state, night.active) == (S.READY, "paris")
    assert positions(night, "paris")[TOPIC] == 420  # behind what was quarantined, of which it had read 5
    done = [line.data["step"] for line in journal.read(fail_back / JOURNAL) if line.event == "step-succeeded"]
    assert len(done) == len(set(done))


@pytest.mark.long
@pytest.mark.timeout(400)
def test_way_back_aborted_failed_rolled_back_and_superseded_is_where_the_table_says(
    night: Night, tmp_path: Path
) -> None:
    moved_by_hand(night)
    runs = tmp_path / "runs"

    def state() -> S:
        return night.state().state

    def rolled_back(folder: Path) -> None:
        plans.roll_back(*plans.run_of(runs, folder), plans.Granted())

    assert state() is S.FAILED_OVER
    one = runs / "one"
    assert in_process(night, "reprotect", one, stop_at="step-started tail", how="abort", tail="leave") == 8
    assert state() is S.REPROTECT_INCOMPLETE
    rolled_back(one)
    assert state() is S.FAILED_OVER
    two, three = runs / "two", runs / "three"
    assert in_process(night, "reprotect", two, stop_at="step-started tail", tail="leave") == KILLED
    assert state() is S.REPROTECTING
    wait_for("the lease is free", lambda: _free(night), 30)
    assert in_process(night, "swap-roles", three, tail="leave") == 2  # two is unfinished
    # at its end lyon could fail over to paris
    assert in_process(night, "swap-roles", three, tail="leave", supersede="two") == 0
    assert state() is S.REPROTECTED
    assert in_process(night, "reprotect", two, tail="leave") == 8  # superseded: never resumed
    assert state() is S.REPROTECTED

    four = runs / "four"
    assert in_process(night, "fail-back", four, stop_at="step-started topics", how="abort") == 8
    assert state() is S.REPROTECTED  # a planned run that is aborted is rolled back
    night.write("lyon", 10)
    commit(night.lab.clusters["lyon"].bootstrap, GROUP, MIRROR, night.end("lyon", MIRROR) - 3)
    never = tmp_path / "fail-back.yaml"
    text = (ROOT / "runbooks" / "fail-back.yaml").read_text()
    notebook = os.fspath(ROOT / "notebooks" / "10_run_a_drill.ipynb")
    text = text.replace("../notebooks/10_run_a_drill.ipynb", notebook)
    never.write_text(text.replace("  activity:", "  rollback: never\n  activity:"))
    five = runs / "five"
    assert in_process(night, never, five) == 6  # the group has not read the mirror to its end
    assert (state(), night.active) == (S.FAILBACK_INCOMPLETE, "lyon")
    rolled_back(five)
    assert state() is S.REPROTECTED
    six, seven = runs / "six", runs / "seven"
    assert in_process(night, never, six, stop_at="step-started topics") == KILLED
    assert state() is S.FAILING_BACK
    wait_for("the lease is free", lambda: _free(night), 30)
    assert in_process(night, never, seven, supersede="six") == 6
    assert state() is S.FAILBACK_INCOMPLETE
    read_all(night)
    assert in_process(night, never, seven) == 0
    assert (state(), night.active) == (S.READY, "paris")
    assert positions(night, "paris")[BACK] == night.end("paris", BACK)


def _free(night: Night) -> bool:
    with Cluster(load_mirror_settings(night.file).clusters["lyon"]) as cluster:
        return not cluster.group_members(f"drlib.drill.{FLOW}")
